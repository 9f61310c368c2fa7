// package.json, package-lock.json and knip.json of the small repository, from those of the kit. npm is not asked, because its
// versions write different lock files, and the same kit must give the same files to everybody.
import { matchesGlob } from 'node:path';
import { KEPT_PACKAGES, keptScripts } from './kept.ts';

type Names = Record<string, string>;

export interface Manifest {
  name: string;
  version: string;
  scripts: Names;
  devDependencies: Names;
}

interface LockedPackage {
  name?: string;
  dependencies?: Names;
  devDependencies?: Names;
  optionalDependencies?: Names;
  peerDependencies?: Names;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
}

export interface Lock {
  name: string;
  /** By location: '' is the project, `node_modules/a/node_modules/b` the b of a. */
  packages: Record<string, LockedPackage>;
}

export interface Knip {
  entry: string[];
  project: string;
}

export function smallManifest(kit: Manifest, name: string, tools: boolean): Manifest {
  const scripts = pick(kit.scripts, keptScripts(tools));
  return { ...kit, name, scripts, devDependencies: pick(kit.devDependencies, KEPT_PACKAGES) };
}

export function smallLock(kit: Lock, { name, devDependencies }: Manifest): Lock {
  const packages: Lock['packages'] = { ...kit.packages, '': { ...kit.packages[''], name, devDependencies } };
  const reached = new Set(['']);
  for (const location of reached)
    for (const wanted of wantedBy(packages[location] ?? {})) {
      const found = placesOf(wanted, location).find((place) => place in packages);
      if (found !== undefined) reached.add(found);
    }
  return { ...kit, name, packages: pick(packages, [...reached]) };
}

/** An optional peer is used if it is there, and keeps nothing. */
function wantedBy({ peerDependenciesMeta: peers, ...one }: LockedPackage): string[] {
  const needed = Object.keys(one.peerDependencies ?? {}).filter((name) => !peers?.[name]?.optional);
  return [...Object.keys({ ...one.dependencies, ...one.devDependencies, ...one.optionalDependencies }), ...needed];
}

/** Where Node looks for this package, nearest first. */
function placesOf(name: string, from: string): string[] {
  const parents = from === '' ? [] : from.split(/\/?node_modules\//).slice(1);
  return Array.from({ length: parents.length + 1 }, (_, up) => {
    const folders = [...parents.slice(0, parents.length - up), name];
    return folders.map((folder) => `node_modules/${folder}`).join('/');
  });
}

/** Exports that only the kit's own tests use are no finding. */
export function smallKnip({ entry, project }: Knip, paths: string[]): object {
  const left = entry.filter((pattern) => paths.some((path) => matchesGlob(path, pattern)));
  return { entry: left, project, ignoreExportsUsedInFile: true, rules: { exports: 'off', types: 'off' } };
}

/** In the order of the object. */
function pick<Value>(from: Record<string, Value>, names: string[]): Record<string, Value> {
  return Object.fromEntries(Object.entries(from).filter(([name]) => names.includes(name)));
}
