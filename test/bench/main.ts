// `npm run bench`: the second edition beside the first, in turn, medians of the rounds. With the name of a section, that
// one alone.
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ROOTS } from '../harness.ts';
import { fill, type Past } from './fill.ts';
import { drive, memoryMbOf, startBenched, type Edition, type Measured, type Wanted } from './measure.ts';
import { behaviourOf, NAMES, rateOf, startServers, type Name as Rival, type Seen } from './others.ts';
import { postgres } from './postgres.ts';

type Both<Value> = Partial<Record<Edition, Value[]>>;

const SECTIONS = { rates, busy, latency, growth, memory, start, postgres: onPostgres, others };
const SLOW_MS = 5;
const REST_MS = 3_000;
const WARM = 4_000;
const MILLION = 1_000_000;

const text = (otherwise: string) => ({ type: 'string', default: otherwise }) as const;
const options = { rounds: text('5'), events: text('100000'), editions: text(ROOTS.first ? 'first,second' : 'second') };
// --ten: also ten million stored events, with the second edition alone.
const flags = { ten: { type: 'boolean' }, help: { type: 'boolean' } } as const;
const parsed = parseArgs({ allowPositionals: true, options: { ...options, ...flags } });
const unknown = parsed.positionals.find((name) => !Object.hasOwn(SECTIONS, name));
if (parsed.values.help || unknown !== undefined) {
  if (unknown !== undefined) console.error(`there is no section ${unknown}`);
  console.error(`npm run bench -- [--rounds n] [--events n] [--ten] [${Object.keys(SECTIONS).join(' | ')} …]`);
  process.exit(unknown === undefined ? 0 : 2);
}
const [rounds, events] = [Number(parsed.values.rounds), Number(parsed.values.events)];
const editions = parsed.values.editions.split(',') as Edition[];
const folder = mkdtempSync(join(tmpdir(), 'kit-bench-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const rows: string[] = [];
for (const [name, section] of Object.entries(SECTIONS))
  if (parsed.positionals.length === 0 || parsed.positionals.includes(name)) rows.push(...(await section()));
const machine = `${cpus()[0]?.model.trim()}, ${cpus().length} cores, Node ${process.version}`;
console.log(`${new Date().toISOString().slice(0, 10)}, ${machine}. Medians of ${rounds} rounds of ${events} events.\n`);
console.log('| figure | first | second | second ÷ first | wanted | |\n| --- | --- | --- | --- | --- | --- |');
console.log(rows.join('\n'));
process.exit();

async function rates(): Promise<string[]> {
  const cases = [{ connections: 64 }, { connections: 256 }, { lanes: 16 }, { lanes: 1 }];
  const made: string[] = [];
  const ratios: number[] = [];
  for (const one of cases) {
    const { connections, lanes } = { connections: 64, lanes: 10_000, ...one };
    const what = `${connections} connections, ${lanes} lanes`;
    const seen = await inTurn(what, (edition) => driven(edition, { count: events, connections, lanes }));
    made.push(rowOf(`a second: ${what}`, of(seen, 'rate'), '≥ 1.0 ×'));
    made.push(rowOf(`processor µs an event: ${what}`, of(seen, 'cpuUs'), '≤ 0.75 ×'));
    ratios.push(median(of(seen, 'rate').second) / median(of(seen, 'rate').first));
  }
  const mean = ratios.reduce((sum, ratio) => sum + ratio / ratios.length, 0);
  return [...made, rowOf('a second: mean of the ratios', { first: [1], second: [mean] }, '≥ 1.1 ×')];
}

async function busy(): Promise<string[]> {
  const made: string[] = [];
  for (const lanes of [1_000, 16]) {
    const what = `handlers of ${SLOW_MS} ms, ${lanes} lanes`;
    const wanted = { count: Math.round(events / (lanes === 16 ? 10 : 4)), lanes };
    const seen = await inTurn(what, (edition) => driven(edition, wanted, { slowMs: SLOW_MS }));
    made.push(rowOf(`a second: ${what}`, of(seen, 'rate'), '≥ 1.0 ×'));
  }
  return made;
}

async function latency(): Promise<string[]> {
  const paced = { count: 10_000, rate: 1_000 };
  const seen = await inTurn('1,000 a second', (edition) => driven(edition, paced));
  const places = await filled({ events: MILLION, waiting: true });
  const whileRead = await inTurn('the same, a million tasks wait, the status is read', (edition, round) => {
    const first = MILLION + 1 + round * (paced.count + 3 * WARM);
    return driven(edition, { ...paced, first, meanwhile: (kit) => kit.status() }, { place: places[edition] });
  });
  return [
    rowOf('release to handler p99 at 1,000/s, ms', of(seen, 'lagP99'), '≤ 10'),
    rowOf('answer p99 at 1,000/s, ms', of(seen, 'answerP99'), '≤ 10'),
    rowOf('answer p99 of them, a million tasks wait, the status is read, ms', of(whileRead, 'answerP99'), '≤ 20'),
  ];
}

async function growth(): Promise<string[]> {
  const ten = { events: 10 * MILLION, waiting: false };
  return [
    await grown('a million waiting tasks', { events: MILLION, waiting: true }, '≥ 0.9'),
    await grown('a million stored events', { events: MILLION, waiting: false }, '≥ 0.95'),
    ...(parsed.values.ten ? [await grown('ten million stored events', ten, '≥ 0.85', ['second'])] : []),
  ];
}

/** The rate on a store with a past, of that on an empty one in the same round. */
async function grown(what: string, past: Past, wanted: string, those = editions): Promise<string> {
  const places = await filled(past, those);
  const measure = async (edition: Edition, round: number): Promise<number> => {
    const first = past.events + 1 + round * (events + WARM);
    const full = await driven(edition, { count: events, first }, { place: places[edition] });
    return full.rate / (await driven(edition, { count: events })).rate;
  };
  const seen = await inTurn(what, measure, those);
  return rowOf(`${what}: of the empty store's rate`, seen, wanted);
}

async function memory(): Promise<string[]> {
  const seen = await inTurn('memory', async (edition) => {
    const kit = await startBenched(edition);
    await sleep(REST_MS);
    const rest = memoryMbOf(kit);
    let load = 0;
    await drive(kit, { count: events, connections: 256, meanwhile: () => (load = Math.max(load, memoryMbOf(kit))) });
    await kit.stop();
    return { rest, load };
  });
  return [
    rowOf('memory at rest, MB (PSS)', of(seen, 'rest'), '≤ 170'),
    rowOf('memory under full load, MB (PSS)', of(seen, 'load'), '≤ 300'),
  ];
}

async function start(): Promise<string[]> {
  const seen = await inTurn('start', async (edition) => {
    const kit = await startBenched(edition);
    await drive(kit, { count: 1_000 });
    await kit.kill();
    const calm = await kit.start();
    const load = drive(kit, { count: events, first: 10_000 }).catch(() => {});
    await sleep(REST_MS);
    await kit.kill();
    await load;
    const killed = await kit.start();
    await kit.stop();
    return { calm, killed };
  });
  return [
    rowOf('start to ready, ms', of(seen, 'calm'), '≤ 600'),
    rowOf('ready after kill -9 under load, ms', of(seen, 'killed'), '≤ 1500'),
  ];
}

async function onPostgres(): Promise<string[]> {
  const figures = await postgres({ rounds, events });
  return figures.map(({ what, values, wanted }) => rowOf(what, { second: values }, wanted));
}

/** What teams use instead. The first line of their table is the kit's. */
async function others(): Promise<string[]> {
  const servers = await startServers();
  const names = [undefined, ...(Object.keys(NAMES) as Rival[])];
  const speeds = new Map<string, number[]>();
  const seen = new Map<string, Omit<Seen, 'rate'>>();
  const keyOf = (name?: Rival): string => name?.replace('.mjs', '') ?? 'this kit';
  try {
    for (let round = 0; round < rounds; round++) {
      for (const name of round % 2 === 0 ? names : names.toReversed()) {
        const rate = await rateOf(name, servers, events);
        speeds.set(keyOf(name), [...(speeds.get(keyOf(name)) ?? []), rate]);
        console.error(`round ${round + 1}, ${keyOf(name)}: ${Math.round(rate)} a second`);
      }
    }
    for (const name of names.filter((one) => one !== 'koa.mjs' && one !== 'http.mjs')) {
      seen.set(keyOf(name), await behaviourOf(name, servers));
      console.error(`${keyOf(name)}: ${JSON.stringify(seen.get(keyOf(name)))}`);
    }
  } finally {
    await servers.stop();
  }
  const kit = median(speeds.get('this kit'));
  return names.map((name) => {
    const rate = median(speeds.get(keyOf(name)));
    const what = Object.entries(seen.get(keyOf(name)) ?? {}).map(([fault, count]) => `${fault} ${count}`);
    const shown = [`others: ${keyOf(name)}, a second`, '', Math.round(rate), (kit / rate).toPrecision(3)];
    return `| ${[...shown, '', what.join(', ')].join(' | ')} |`;
  });
}

async function driven(edition: Edition, wanted: Wanted, { place = '', slowMs = 0 } = {}): Promise<Measured> {
  const kit = await startBenched(edition, place, slowMs);
  // A young process is slower, and so is one that has just had more to do.
  if (wanted.rate) await drive(kit, { ...wanted, count: WARM });
  const measured = await drive(kit, wanted.rate ? { ...wanted, first: (wanted.first ?? 0) + 2 * WARM } : wanted);
  await kit.stop();
  return measured;
}

/** Folders with stores of this past. */
async function filled(past: Past, those = editions): Promise<Partial<Record<Edition, string>>> {
  const places: Partial<Record<Edition, string>> = {};
  for (const edition of those) {
    console.error(`filling ${past.events} events, ${edition} edition`);
    places[edition] = mkdtempSync(join(folder, `${edition}-`));
    await fill(edition, places[edition], past);
  }
  return places;
}

/** Each round measures each edition, in turns, because the machine changes from minute to minute. */
async function inTurn<Result>(
  what: string,
  measure: (edition: Edition, round: number) => Promise<Result>,
  those = editions,
): Promise<Both<Result>> {
  const seen: Both<Result> = {};
  for (let round = 0; round < rounds; round++) {
    for (const edition of round % 2 === 0 ? those : those.toReversed()) {
      const result = await measure(edition, round);
      (seen[edition] ??= []).push(result);
      console.error(`round ${round + 1}, ${what}, ${edition}: ${JSON.stringify(result)}`);
    }
  }
  return seen;
}

/** `wanted` is of the second edition's median; with × of its ratio to the first's. */
function rowOf(figure: string, seen: Both<number>, wanted: string): string {
  const [first, second] = [median(seen.first), median(seen.second)];
  const [, sign, limit = ''] = /^(.) ([\d.]+)/.exec(wanted) ?? [];
  const value = wanted.endsWith('×') ? second / first : second;
  const isMet = sign === '≥' ? value >= Number(limit) : value <= Number(limit);
  const verdict = Number.isNaN(value) ? '' : isMet ? 'met' : 'MISSED';
  const shown = [first, second, second / first].map((n) => (n >= 100 ? Math.round(n) : Number(n.toPrecision(3))));
  return `| ${[figure, ...shown.map((n) => n || ''), wanted, verdict].join(' | ')} |`;
}

function of<Name extends string>(seen: Both<Record<Name, number>>, name: Name): Both<number> {
  return Object.fromEntries(Object.entries(seen).map(([edition, all]) => [edition, all.map((one) => one[name])]));
}

function median(numbers: number[] = []): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;
}
