// Checks one property with many random cases. The returned row shows the smallest case that breaks the property.
import * as fc from 'fast-check';
import type { Row } from '../report.ts';

export interface Asked {
  seed: number;
  cases: number;
  short: boolean;
  progress: (line: string) => void;
}

const TELL_EVERY_MS = 5_000;

/** `property` must call `onCase` once per case. */
export async function check<Case>(
  what: string,
  { seed, cases, short, progress }: Asked,
  property: (onCase: () => void) => fc.IAsyncProperty<Case> | fc.IProperty<Case>,
): Promise<Row> {
  let done = 0;
  let toldAt = performance.now();
  function onCase(): void {
    done++;
    if (performance.now() - toldAt < TELL_EVERY_MS) return;
    toldAt = performance.now();
    progress(`${what}: ${done} of ${cases}`);
  }
  progress(`${what}: ${cases} cases, seed ${seed}`);
  const details = await fc.check(property(onCase) as fc.IRawProperty<Case>, { seed, numRuns: cases });
  const seen = `${details.numRuns} cases, seed ${seed}`;
  if (!details.failed) return { what, seen, violations: [] };
  const { counterexample, numShrinks, errorInstance } = details;
  const why = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
  const example = fc.stringify(counterexample);
  const again = `npm run prove -- inputs --seed ${seed}${short ? ' --short' : ''}`;
  return {
    what,
    seen,
    violations: [`${why}: shrunk ${numShrinks} times to ${example}: ${again}`],
  };
}

/** Makes reports print the value as these words. */
export function told<Value extends object>(words: string, value: Value): Value {
  return Object.assign(value, { [fc.toStringMethod]: () => words });
}

/** An assertion within a property. The message says what was found and what was expected. */
export function hold(holds: boolean, why: string | (() => string)): asserts holds {
  if (!holds) throw new Error(typeof why === 'string' ? why : why());
}
