// `npx kit --version`: the kit, the schema of its store, and Node.
import { readdirSync, readFileSync } from 'node:fs';
import { loadConfig, readEnv } from '../../config.ts';

const ROOT = new URL('../../../', import.meta.url);

export function version(): string {
  const kit = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as { name: string; version: string };
  const { storePath } = loadConfig(readEnv(), { only: ['DATABASE_URL'] });
  const kind = storePath === null ? 'postgres' : 'sqlite';
  const steps = readdirSync(new URL(`src/store/${kind}/migrations/`, ROOT)).filter((file) => file.endsWith('.sql'));
  return `${kit.name} ${kit.version}, schema ${steps.length} (${kind}), Node ${process.versions.node}`;
}
