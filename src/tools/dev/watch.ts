// Says when a handler or src/events.ts was saved.
import { readdirSync, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Editors save a file in several steps, so a file counts as saved after this many quiet milliseconds. */
const SETTLE_MS = 50;

/** Watches folders instead of files, because many editors replace the file when they save it. */
export function watchFiles(handlersDir: string, events: string, saved: () => void): void {
  let settling: NodeJS.Timeout | undefined;
  const settle = (): void => {
    clearTimeout(settling);
    settling = setTimeout(saved, SETTLE_MS);
  };
  watch(dirname(events), (_, name) => name === basename(events) && settle());
  const inside = readdirSync(handlersDir, { recursive: true, withFileTypes: true }).filter((one) => one.isDirectory());
  for (const folder of [handlersDir, ...inside.map((one) => join(one.parentPath, one.name))])
    watch(folder, (_, name) => /^[^.].*\.[cm]?[jt]s$/.test(name ?? '') && settle());
}
