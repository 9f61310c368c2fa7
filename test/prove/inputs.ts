// The campaign of bad inputs: every row of the catalogue, and what no catalogue lists, as properties over random cases.
// A hundred thousand in all: 45,000 bodies, 45,000 changes, 10,000 interleavings of some twenty steps each. The short form
// takes the first fiftieth of them.
import { anyBytes } from './inputs/bodies.ts';
import { catalogue } from './inputs/catalogue.ts';
import { anyChange } from './inputs/changes.ts';
import { interleavings } from './inputs/interleavings.ts';
import type { Options, Report } from './report.ts';

const CASES = { bytes: 45_000, changes: 45_000, interleavings: 10_000 };
const SHORT = 50;

export async function campaign({ seed, short, progress }: Options): Promise<Report> {
  const ask = (cases: number) => ({ seed, cases: short ? cases / SHORT : cases, short, progress });
  const rows = [
    ...(await catalogue(progress)),
    await anyBytes(ask(CASES.bytes)),
    await anyChange(ask(CASES.changes)),
    await interleavings(ask(CASES.interleavings)),
  ];
  return { title: 'inputs', rows };
}
