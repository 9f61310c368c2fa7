// The campaign `inputs`: the tests of the catalogue of bad inputs, then random cases. An interleaving is one case of
// about twenty steps. The short form runs one case in fifty.
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
