// Tells a process from a later one that was given the same pid.
import { readFileSync } from 'node:fs';

/** The kernel's start time of a process, so that a reused pid is not taken for it; empty where that is not known. */
export function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may hold spaces; the 20th field behind it is the start time.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}
