// Which handlers wait because their file is broken.
import type { HandlerFiles } from './work.ts';

interface Known {
  file: string | null;
}

/** True if the handler's file is broken, or if it is gone and a broken file is new, which may be the renamed one. */
export function mayBeBroken({ file }: Known, known: Known[], { of, broken }: HandlerFiles): boolean {
  if (broken.length === 0) return false;
  if (file !== null && broken.includes(file)) return true;
  const isNew = (one: string): boolean => !known.some((row) => row.file === one);
  const isGone = file !== null && ![...of.values()].includes(file);
  return isGone && broken.some(isNew);
}
