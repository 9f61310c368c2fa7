// Runs a kit as processes under load and produces a fault. Afterwards every acknowledged event must be stored once and
// completed once, in order. Every answer must be one that the fault allows.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createKit, load, makeEvent, deliver, RECORD, until, type Kit, type Target } from '../../system/kit.ts';

const INSIDE = new URL('inside.ts', import.meta.url).href;
/** The limit for completing one more event after a fault. */
const DONE_MS = 60_000;
/** Single deliveries go into this lane, which no delivery of the load uses. */
const ALONE = { session: '00000000-0000-4000-8000-00000000ffff', from: 'alone' };
/** The longest time that a lock may block the event loop of receive. */
const STAND_MS = 100;

export interface Found {
  seen: string;
  violations: string[];
}

/** One fault of the catalogue F1 to F50, or several that are produced together. */
export interface Fault {
  numbers: number[];
  what: string;
  /** The fault is part of the short form too, because no other test of `npm run test:system` produces it. */
  short?: true;
  produce(seed: number): Promise<Found>;
}

/** The machine lacks something that is needed to produce a fault. */
export class Lacking extends Error {}

export interface Scene {
  kit: Kit;
  statuses: Map<number, number>;
  acknowledged: Set<string>;
  /** Starts deliveries at this rate. */
  load(perSecond: number, target?: Target): void;
  /** Stops the load. Resolves to the number of deliveries sent so far. */
  rest(): Promise<number>;
  /** Sends one delivery, which is counted with those of the load. */
  send(target?: Target, body?: string, secrets?: string[]): Promise<number>;
  /** Resolves when this many more deliveries are acknowledged. */
  acknowledge(more: number): Promise<void>;
  /** Sets the wall clock of all processes of the kit to this many milliseconds ahead of the real time. */
  setClock(aheadMs: number): Promise<void>;
  /** The status of a probe. 0: no answer. */
  probe(path?: string): Promise<number>;
  /**
   * Describes how long receive's event loop was blocked since the last call. Adds a violation if it was blocked often.
   * Time spent waiting for a processor core does not count for the violation.
   */
  stood(): string;
  status(): Promise<{
    alarms: { name: string }[];
    failureRun: number;
    reconcile: { lastAt: string | null };
    [name: string]: unknown;
  }>;
  holds(holds: boolean, otherwise: string): void;
}

export interface SceneOptions {
  handlers?: Record<string, string>;
  env?: Record<string, string>;
  /** Statuses that the fault may cause besides 204. 0 is a connection that was refused or cut. */
  allowed?: number[];
  /** Whether the handler `record` must complete all events. Default: true. */
  completes?: boolean;
  starts?: boolean;
}

export async function stage(options: SceneOptions, play: (scene: Scene) => Promise<string>): Promise<Found> {
  const { handlers = { record: RECORD }, env = {}, allowed = [], completes = true, starts = true } = options;
  const violations: string[] = [];
  const settings: Record<string, string> = { NODE_OPTIONS: `--import ${INSIDE}`, ...env };
  const kit = await createKit(handlers, settings);
  const [clockFile, loopFile] = [join(kit.folder, 'clock'), join(kit.folder, 'loop')];
  writeFileSync(clockFile, '0');
  Object.assign(settings, { KIT_CLOCK: clockFile, KIT_LOOP: loopFile });
  const acknowledged = new Set<string>();
  const statuses = new Map<number, number>();
  let running: ReturnType<typeof load> | undefined;
  let next = 0;
  let single = 10_000_000;
  let looked = 0;

  const count = (status: number, by = 1): void => void statuses.set(status, (statuses.get(status) ?? 0) + by);
  const scene: Scene = {
    kit,
    statuses,
    acknowledged,
    load(perSecond, target = kit) {
      running = load(target, perSecond, next);
    },
    async rest() {
      if (!running) return next;
      next = await running.stop();
      for (const id of running.acknowledged) acknowledged.add(id);
      for (const [status, n] of running.statuses) count(status, n);
      running = undefined;
      return next;
    },
    async send(target = kit, body?: string, secrets?: string[]) {
      const event = { ...makeEvent(single++), ...ALONE, ...(body === undefined ? {} : { body }) };
      const status = await deliver(target, event, secrets);
      count(status);
      if (status === 204) acknowledged.add(event.id);
      return status;
    },
    async acknowledge(more) {
      const of = (running ?? { acknowledged }).acknowledged;
      const enough = of.size + more;
      await until(() => of.size >= enough);
    },
    async setClock(aheadMs) {
      writeFileSync(clockFile, String(aheadMs));
      // Each process of the kit reads the file every 20 ms, so all of them have the new time by then.
      await sleep(500);
    },
    probe: (path = '/readyz') => ask(kit.port, path).then(({ status }) => status),
    stood() {
      const lines = existsSync(loopFile) ? readFileSync(loopFile, 'utf8').trim().split('\n') : [];
      const fresh = lines.slice(looked).map((line) => line.split(' ').map(Number) as [number, number]);
      looked = lines.length;
      const longest = Math.max(0, ...fresh.map(([ms]) => ms));
      const own = fresh.filter(([ms, waited]) => ms - waited > STAND_MS).length;
      // A slow disk or the garbage collector may block the loop once. Waiting for a lock would block it again and
      // again.
      scene.holds(
        own < 2 || own < fresh.length / 10,
        `the loop of receive stood still in ${own} of ${fresh.length} looks`,
      );
      return `longest stand of receive's loop ${Math.round(longest)} ms, by itself above ${STAND_MS} ms in ${own} of ${fresh.length} looks`;
    },
    async status() {
      let text = '';
      await eventually(async () => ({ text } = await ask(kit.opsPort, '/api/status')).status === 200);
      return JSON.parse(text) as Awaited<ReturnType<Scene['status']>>;
    },
    holds: (holds, otherwise) => void (holds || violations.push(otherwise)),
  };

  try {
    if (starts) await kit.start();
    const seen = await play(scene);
    await scene.rest();
    const odd = [...statuses].filter(([status]) => status !== 204 && !allowed.includes(status));
    for (const [status, n] of odd) violations.push(`${n} × ${status === 0 ? 'no answer' : status}`);
    violations.push(...(await judge(kit, acknowledged, completes)));
    const code = await kit.stop();
    scene.holds(code === 0, `ended with ${code}`);
    return { seen: `${seen}; ${answers(statuses)}`, violations };
  } finally {
    await running?.stop();
    await kit.remove();
  }
}

function answers(statuses: Map<number, number>): string {
  const words = [...statuses].map(([status, n]) => `${n} × ${status === 0 ? 'no answer' : status}`);
  return words.length > 0 ? words.join(', ') : 'nothing sent';
}

/** The checks that follow every fault. Returns the violations. */
export async function judge(kit: Kit, acknowledged: Set<string>, completes = true): Promise<string[]> {
  const violations: string[] = [];
  const one = (sql: string): number => kit.query<{ n: number }>(sql)[0]?.n ?? 0;
  const stored = new Set(kit.query<{ id: string }>('select id from events').map(({ id }) => id));
  const lost = [...acknowledged].filter((id) => !stored.has(id));
  if (lost.length > 0) violations.push(`${lost.length} acknowledged events are lost, ${lost[0]} first`);
  const whole = kit.query<{ integrity_check: string }>('pragma integrity_check')[0]?.integrity_check;
  if (whole !== 'ok') violations.push(`integrity_check: ${whole}`);
  if (!completes) return violations;
  const open = `select (select count(*) from events where type = 'MessageReceived') - count(*) as n from tasks t
    join handlers h on h.id = t.handler join events e on e.seq = t.event
    where h.name = 'record' and t.state = 'done' and e.type = 'MessageReceived'`;
  const left = await lowest(() => one(open));
  if (left > 0) violations.push(`${left} events are not completed`);
  const events = one(`select count(*) as n from events where type = 'MessageReceived'`);
  if (one('select count(distinct key) as n from seen') < events && violations.length === 0)
    violations.push('events are completed that their handler has not written');
  const twice = one('select count(*) as n from (select key from seen group by key having count(*) > 1)');
  if (twice > 0) violations.push(`${twice} events are completed twice`);
  const back = one(`select count(*) as n from (select late, cursor < max(cursor) over
    (partition by lane order by n rows between unbounded preceding and 1 preceding) as back from seen) where back and not late`);
  if (back > 0) violations.push(`${back} events out of order, and not marked late`);
  return violations;
}

/** Waits until a count no longer falls, and resolves to it. Under load that may take long. */
async function lowest(count: () => number): Promise<number> {
  let left = count();
  for (let before = Infinity; left > 0 && left < before; left = count()) {
    before = left;
    const above = left;
    await until(() => count() < above, DONE_MS).catch(() => {});
  }
  return left;
}

export function ask(port: number, path: string, method = 'GET', body = ''): Promise<{ status: number; text: string }> {
  return new Promise((done) => {
    const asked = request(
      { port, host: '127.0.0.1', path, method, agent: false, headers: json(port, body) },
      (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => void (text += chunk.toString()));
        response.on('end', () => done({ status: response.statusCode ?? 0, text }));
        response.on('error', () => done({ status: 0, text }));
      },
    );
    asked.setTimeout(20_000, () => asked.destroy());
    asked.on('error', () => done({ status: 0, text: '' }));
    asked.end(body);
  });
}

function json(port: number, body: string): Record<string, string> {
  if (body === '') return {};
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    origin: `http://127.0.0.1:${port}`,
  };
}

/** Polls a condition that may be asynchronous. Resolves to false after the limit. */
export async function eventually(asked: () => Promise<boolean> | boolean, limitMs = 30_000): Promise<boolean> {
  for (const end = Date.now() + limitMs; Date.now() < end; await sleep(50)) if (await asked()) return true;
  return false;
}
