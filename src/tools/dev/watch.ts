// Says when a handler, src/events.ts or .env was saved.
import { readdirSync, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Editors save a file in several steps, so a file counts as saved after this many quiet milliseconds. */
const SETTLE_MS = 50;

/** Watches folders instead of files, because many editors replace the file when they save it. */
export function watchFiles(folders: string[], files: string[], saved: () => void): void {
  let settling: NodeJS.Timeout | undefined;
  const settle = (): void => {
    clearTimeout(settling);
    settling = setTimeout(saved, SETTLE_MS);
  };
  for (const file of files) watch(dirname(file), (_, name) => name === basename(file) && settle());
  const inside = folders.flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }));
  const all = inside.filter((one) => one.isDirectory()).map((one) => join(one.parentPath, one.name));
  for (const folder of [...folders, ...all])
    watch(folder, (_, name) => /^[^.].*\.[cm]?[jt]s$/.test(name ?? '') && settle());
}
