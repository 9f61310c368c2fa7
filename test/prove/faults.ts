// `npm run prove -- faults`: produces the faults F1 to F50 one after another and checks the kit after each. If a fault
// is not produced, its row gives the reason.
import { clock } from './faults/clock.ts';
import { crowd } from './faults/crowd.ts';
import { disk } from './faults/disk.ts';
import { ends } from './faults/ends.ts';
import { file } from './faults/file.ts';
import { handlers } from './faults/handlers.ts';
import { locks } from './faults/locks.ts';
import { postgres } from './faults/postgres.ts';
import { Lacking, type Fault, type Found } from './faults/scene.ts';
import { service } from './faults/service.ts';
import { UnknownCase, type Options, type Report } from './report.ts';

const LAST = 50;
const FAULTS: Fault[] = [...disk, ...locks, ...file, ...clock, ...ends, ...handlers, ...service, ...crowd, ...postgres];

/** Faults that this campaign does not produce, each with the reason. */
const ELSEWHERE: Record<number, string> = {
  13: 'produced by npm run prove -- crash: unsynced writes dropped, whole and in part',
};

export async function campaign({ seed, short, only, progress }: Options): Promise<Report> {
  const rows: Report['rows'] = [];
  const chosen = only === undefined ? FAULTS.filter((fault) => !short || fault.short) : casesOf(only);
  for (const fault of chosen) {
    const what = nameOf(fault);
    progress(what);
    const { seen, violations } = await produced(fault, seed);
    progress(`   ${violations.length > 0 ? `VIOLATED: ${violations.join('; ')}` : seen}`);
    rows.push({ what, seen, violations });
  }
  if (only !== undefined) return { title: `Faults, only ${only}`, rows };
  const told = new Set(chosen.flatMap(({ numbers }) => numbers));
  for (let number = 1; number <= LAST; number++) {
    if (told.has(number)) continue;
    const known = FAULTS.some(({ numbers }) => numbers.includes(number));
    const seen = ELSEWHERE[number] ?? (known ? 'only in the long form' : 'not produced by any test');
    rows.push({ what: `F${number}`, seen, violations: ELSEWHERE[number] || known ? [] : [seen] });
  }
  return { title: short ? 'Faults, the short form' : 'Faults', rows: rows.toSorted(byNumber) };
}

/** Throws UnknownCase, so that a typing error does not look like a proof. */
export function casesOf(only: string): Fault[] {
  const isNumber = /^F\d+$/i.test(only);
  const cases = FAULTS.filter((fault) =>
    isNumber ? fault.numbers.includes(Number(only.slice(1))) : nameOf(fault).includes(only),
  );
  if (cases.length > 0) return cases;
  throw new UnknownCase(`No case is named ${JSON.stringify(only)}. There are:\n  ${FAULTS.map(nameOf).join('\n  ')}`);
}

async function produced(fault: Fault, seed: number): Promise<Found> {
  try {
    return await fault.produce(seed);
  } catch (error) {
    if (error instanceof Lacking) return { seen: `not produced: this machine lacks ${error.message}`, violations: [] };
    return { seen: 'the test itself failed', violations: [String(error)] };
  }
}

function nameOf({ numbers, what }: Fault): string {
  return [...numbers.map((number) => `F${number}`), what].join(' ');
}

function byNumber(a: { what: string }, b: { what: string }): number {
  const [first, second] = [a, b].map(({ what }) => Number(/^F(\d+)/.exec(what)?.[1] ?? LAST + 1));
  return (first ?? 0) - (second ?? 0);
}
