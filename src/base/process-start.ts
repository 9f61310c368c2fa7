// Distinguishes a process from a later one with the same pid.
import { readFileSync } from 'node:fs';
import { orUndefined } from './errors.ts';

/** The kernel's start time of a process. Empty: unknown. */
export function startOf(pid: number): string {
  const stat = orUndefined(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The name is in parentheses and may hold spaces. The start time is the 20th field after it.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}
