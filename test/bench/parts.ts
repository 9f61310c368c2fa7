// The parts of the benchmark. Each starts its own servers, one at a time.
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { drive, type Wanted } from './drive.ts';
import { fill, type Past } from './fill.ts';
import { lagsOf, startKit, startRival, type Server } from './servers.ts';

export type Row = Record<string, string | number | null>;
export interface Part {
  title: string;
  /** A sentence about the columns. */
  note: string;
  rows: Row[];
}

export interface PartOptions {
  folder: string;
  rounds: number;
  events: number;
  /** For growth: the numbers of events that are stored before the measurement. */
  stored: number[];
  progress: (line: string) => void;
}

const WARM = 4_000;
/** Milliseconds of a slow handler. */
const SLOW_MS = 5;
/** Connections of the sender. They bound the number of deliveries that can share a commit. */
const CONNECTIONS = [64, 256];
/** Memory is measured this long after a start, so that `run` has read the lanes and garbage is collected. */
const REST_MS = 3_000;

/**
 * Rates and processor time of all servers. Each round measures every server, because the machine's other load changes
 * from round to round.
 */
export async function rates({ folder, rounds, events, progress }: PartOptions): Promise<Part> {
  const servers = [
    { name: 'the kit', start: () => startKit({ folder: place() }), share: 1 },
    {
      name: 'Koa, verifying like the kit',
      start: () => startRival('front', place()),
      share: 1,
    },
    { name: 'Koa, createHmac and JSON.parse', start: () => startRival('koa', place()), share: 1 },
    { name: 'node:http, one synced row each', start: () => startRival('rows', place()), share: 0.2 },
    { name: 'express, standardwebhooks, one synced row each', start: () => startRival('express', place()), share: 0.2 },
  ];
  let places = 0;
  const place = (): string => join(folder, `rates-${places++}`);
  const rows: Row[] = [];
  for (const connections of CONNECTIONS) {
    const seen = servers.map(() => [] as { rate: number; cpuUs: number }[]);
    for (let round = 1; round <= rounds; round++) {
      for (const [index, { name, start, share }] of servers.entries()) {
        const server = await start();
        const scheme = name.includes('standardwebhooks') ? 'standard' : 'service';
        const measured = await drive(server, { count: Math.round(events * share), scheme, connections });
        await server.stop();
        seen[index]?.push(measured);
        const figures = `${Math.round(measured.rate)}/s, ${Math.round(measured.cpuUs)} µs each`;
        progress(`round ${round}, ${connections} connections: ${name}: ${figures}`);
      }
    }
    const rateOf = (all: { rate: number }[] = []): number => median(all.map(({ rate }) => rate));
    for (const [index, all] of seen.entries()) {
      rows.push({
        connections,
        server: servers[index]?.name ?? '',
        'kit ÷ this': round2(rateOf(seen[0]) / rateOf(all)),
        'a second': Math.round(rateOf(all)),
        'CPU µs each': Math.round(median(all.map(({ cpuUs }) => cpuUs))),
      });
    }
  }
  const note = `Medians of ${rounds} rounds of ${events} events; a fifth for one synced row each. The kit counts handled events, with its window of 250 ms; the others count answers, and the Koas store nothing. CPU: all processes of the server.`;
  return { title: 'Accepted and handled', note, rows };
}

/** Measures a backlog in few lanes, where tasks must run one after another, with fast handlers and with slow ones. */
export async function busy({ folder, rounds, events, progress }: PartOptions): Promise<Part> {
  const cases = [
    { lanes: 10_000, slowMs: 0, share: 1 },
    { lanes: 16, slowMs: 0, share: 1 },
    { lanes: 1, slowMs: 0, share: 1 },
    { lanes: 1_000, slowMs: SLOW_MS, share: 0.25 },
    { lanes: 16, slowMs: SLOW_MS, share: 0.1 },
  ];
  const seen = cases.map(() => [] as { rate: number; of: number }[]);
  for (let round = 1; round <= rounds; round++) {
    let most = NaN;
    for (const [index, { lanes, slowMs, share }] of cases.entries()) {
      const server = await startKit({ folder: join(folder, `busy-${round}-${index}`), slowMs });
      const { rate } = await drive(server, { count: Math.round(events * share), lanes });
      await server.stop();
      if (index === 0) most = rate;
      seen[index]?.push({ rate, of: rate / most });
      progress(`round ${round}: ${lanes} lanes, handlers of ${slowMs} ms: ${Math.round(rate)}/s`);
    }
  }
  const rows = cases.map(({ lanes, slowMs }, index) => ({
    lanes,
    'handler ms': slowMs,
    'a second': Math.round(median((seen[index] ?? []).map(({ rate }) => rate))),
    'of the first row': round2(median((seen[index] ?? []).map(({ of }) => of))),
  }));
  const note = `Accepted and handled. Medians of ${rounds} rounds of ${events} events; fewer for slow handlers.`;
  return { title: 'Lanes', note, rows };
}

/**
 * Measures the time until an answer, and from a task's release to the start of its handler. The rows differ in the rate
 * of deliveries, and in how long a sync of the disk takes.
 */
export async function latency({ folder, events, progress }: PartOptions): Promise<Part> {
  const rows: Row[] = [];
  const slow = ['strace', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null', '-e', 'trace=fsync,fdatasync'];
  const delayed = [...slow, '-e', 'inject=fsync,fdatasync:delay_exit=3000'];
  const disks = [{ disk: `sync ${round2(syncMs(folder))} ms`, prefix: [] as string[] }];
  if (spawnSync('strace', ['-V']).error) progress('strace is missing: the slower disk is left out');
  else disks.push({ disk: 'sync +3 ms', prefix: delayed });
  for (const { disk, prefix } of disks) {
    for (const rate of [100, 1_000, 5_000, null]) {
      const place = join(folder, `latency-${rows.length}`);
      const server = await startKit({ folder: place, prefix });
      const measured = await drive(server, { count: rate === null ? events : rate * 10, rate });
      await server.stop();
      const lags = lagsOf(place, WARM);
      const row = {
        disk,
        'sent a second': rate ?? 'maximum',
        'handled a second': Math.round(measured.rate),
        'answer p50 ms': round1(measured.p50),
        'answer p99 ms': round1(measured.p99),
        'release to handler p50 ms': lags.p50,
        'release to handler p99 ms': lags.p99,
      };
      rows.push(row);
      progress(Object.values(row).join(' · '));
    }
  }
  const note =
    'Answer: from when a delivery was due. Release: receipt and the window of 250 ms, which `handled a second` includes.';
  return { title: 'Latency', note, rows };
}

/**
 * Measures the same load on stores that already hold events. Each run is compared with a run on an empty store in the
 * same round, because the machine's other load changes from round to round.
 */
export async function growth({ folder, rounds, events, stored, progress }: PartOptions): Promise<Part> {
  const pasts: { name: string; past: Past; lanes?: number }[] = [
    ...stored.map((count) => ({ name: `${count / 1e6} million events`, past: { events: count } })),
    { name: 'a million waiting tasks', past: { events: 1_000_000, waiting: 1_000_000, lanes: 100_000 } },
    { name: '100,000 lanes', past: { events: 0 }, lanes: 100_000 },
  ];
  const rows: Row[] = [];
  for (const { name, past, lanes = 10_000 } of pasts) {
    const place = join(folder, `growth-${rows.length}`);
    if (past.events > 0) await fill(place, past, progress);
    const seen: (Loaded & { empty: number })[] = [];
    for (let round = 0; round < rounds; round++) {
      const first = past.events + round * 2 * (events + WARM);
      const withPast = (): Promise<Loaded> => loaded(place, { count: events, lanes, first });
      // The second run finds the disk still busy with the first, so the order of the two runs alternates.
      const early = round % 2 === 0 ? undefined : await withPast();
      const { rate } = await loaded(`${place}-empty-${round}`, { count: events });
      const one = early ?? (await withPast());
      seen.push({ ...one, empty: rate });
      progress(`round ${round + 1}: ${name}: ${Math.round(one.rate)}/s, empty: ${Math.round(rate)}/s`);
    }
    const of = (field: keyof (typeof seen)[number]): number => median(seen.map((one) => one[field]));
    rows.push({
      store: name,
      'of the empty rate': round2(median(seen.map(({ rate, empty }) => rate / empty))),
      'a second': Math.round(of('rate')),
      'answer p99 ms': round1(of('p99')),
      'release to handler p99 ms': of('lag'),
      'ready after ms': Math.round(of('startMs')),
      'memory at rest MB': Math.round(of('restMb')),
      'under load MB': Math.round(of('loadMb')),
    });
    progress(Object.values(rows.at(-1) ?? {}).join(' · '));
    rmSync(place, { recursive: true });
  }
  const note = `Medians of ${rounds} rounds of ${events} events, in turn with an empty store. Ready: from the start to the first 200 of /readyz. Memory: PSS of all processes; at rest ${REST_MS / 1000} s after a start.`;
  return { title: 'Growth', note, rows };
}

interface Loaded {
  rate: number;
  p99: number;
  lag: number;
  startMs: number;
  restMb: number;
  loadMb: number;
}

async function loaded(folder: string, wanted: Wanted): Promise<Loaded> {
  const { server, startMs } = await startTwice(folder);
  await sleep(REST_MS);
  const restMb = server.memoryMb();
  const { rate, p99 } = await drive(server, wanted);
  const loadMb = server.memoryMb();
  await server.stop();
  return { rate, p99, lag: lagsOf(folder, WARM).p99, startMs, restMb, loadMb };
}

/** Starts the kit twice: the first start brings the store's file into the page cache, and the second is measured. */
async function startTwice(folder: string): Promise<{ server: Server; startMs: number }> {
  await (await startKit({ folder })).stop();
  const server = await startKit({ folder });
  return { server, startMs: server.startMs };
}

function syncMs(folder: string): number {
  const file = join(folder, 'sync');
  const opened = openSync(file, 'w');
  const took = Array.from({ length: 100 }, () => {
    writeSync(opened, Buffer.alloc(64 * 1024));
    const began = performance.now();
    fdatasyncSync(opened);
    return performance.now() - began;
  });
  closeSync(opened);
  rmSync(file);
  return median(took);
}

export function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;
}

function round1(number: number): number {
  return Math.round(number * 10) / 10;
}

export function round2(number: number): number {
  return Math.round(number * 100) / 100;
}
