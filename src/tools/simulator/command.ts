// What the commands of the console share: what they act on, their help, and how they refuse an input.
import type { Key } from './keys.ts';
import type { SimulatedService } from './service.ts';

/** The service and the key that the commands act on. */
export interface Rehearsal {
  service: SimulatedService;
  key: Key;
}

/** A line of the help, of at most 100 columns. */
export interface Usage {
  usage: string;
  does: string;
}

/** An input error. The message says what to type instead. */
export class Wrong extends Error {}

export function helpOf(commands: Usage[]): string {
  return commands.map(({ usage, does }) => `  ${usage.padEnd(32)}  ${does}`).join('\n');
}
