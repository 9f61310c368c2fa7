// A test of one statement of the contract. `npm run -s contract` shows all of them as a table.
import { test } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** False: the kit does not do yet what the statement says. */
    holds?: boolean;
  }
}

type Run = () => Promise<unknown> | void;

/** `section` is the statement's section in the contract. `run` fails if the kit does not do what the statement says. */
export function holds(section: string, statement: string, run: Run): void {
  test(`${section}: ${statement}`, async () => void (await run()));
}

/** For a statement that does not hold yet. The test fails as soon as the statement holds: then call `holds`. */
holds.not = (section: string, statement: string, run: Run): void => {
  test.fails(`${section}: ${statement}`, { meta: { holds: false } }, async () => void (await run()));
};
