// The steps of `setup`. Each runs once, so a step that has run must stay as it is: its digest is remembered and compared.
import { createHash } from 'node:crypto';
import type { Handler } from '../kit.ts';
import type { SetupStep, Tx } from '../store/work.ts';

export type Step = Extract<Required<Handler>['setup'], readonly unknown[]>[number];

/** Quoted text, comments and white space of SQL. */
const SQL = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[^]*?\*\/|\s+/g;
/** Comments of code and of the SQL in it, and the characters that formatters add, remove and replace. */
const CODE = /(?<![^\s,;(){}])\/\/[^\n]*|\/\*[^]*?\*\/|(?<=\s)--\s[^\n]*|[\s,;()'"`\\]/g;

/** A formatter does not change it. Stores hold digests, so what is left out must stay the same. */
export function digestOf(step: Step): string {
  const sql = (text: string): string => text.replaceAll(SQL, (part) => (/^['"]/.test(part) ? part : ' '));
  const plain = typeof step === 'string' ? sql(step).replace(/;\s*$/, '') : String(step).replaceAll(CODE, ' ');
  // A space counts only if it divides two words.
  const text = plain.replaceAll(/\s+/g, ' ').replaceAll(/(?<!\w) | (?!\w)/g, '');
  return createHash('sha256').update(text).digest('hex');
}

export function runStep(step: Step, tx: Tx): unknown {
  return typeof step === 'string' ? tx.run(step) : step(tx);
}

/** How many of the steps have run. Throws if one of them was changed since. `loaded`: the names of all loaded handlers. */
export function countRan(name: string, steps: readonly Step[], ran: SetupStep[], loaded: string[]): number {
  const digests = steps.map(digestOf);
  const isSame = ({ step, digest }: SetupStep): boolean => (digests[step - 1] ?? digest) === digest;
  const own = ran.filter(({ handler }) => handler === name);
  const changed = own.find((step) => !isSame(step))?.step;
  if (changed !== undefined)
    throw new Error(
      `step ${changed} is no longer the one that has run: undo the change of step ${changed}, and write what should change as a new last step (a new handler takes a name of its own; in npm run dev, Clear begins anew)`,
    );
  if (own.length > 0 || steps.length === 0) return own.length;
  const others = Map.groupBy(ran, ({ handler }) => handler);
  const former = [...others].find(([other, its]) => !loaded.includes(other) && its.every(isSame))?.[0];
  if (former === undefined) return 0;
  throw new Error(
    `its steps have run for ${former}, which is gone, or broken: if it was renamed, npx kit tasks move --from ${former} --to ${name} takes them along; if not, give its tables other names (in npm run dev, Clear begins anew)`,
  );
}
