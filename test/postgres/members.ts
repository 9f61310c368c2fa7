// Several real instances of the kit on one PostgreSQL store, and a sender that delivers to all of them.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { createKit, deliver, makeEvent, type Kit, type TestEvent } from '../system/kit.ts';
import { urlOf } from './server.ts';

/** For handlers: notes what happens in a file that all instances share. */
export const NOTE = `import { appendFileSync } from 'node:fs';
const instance = process.ppid;
const note = (what, event) => appendFileSync(process.env.RAN, [what, event.key.slice(2), event.sessionId, instance, Date.now()].join(' ') + '\\n');
`;

/** A handler that notes the beginning and the end of each attempt. */
export const NOTING = `${NOTE}export default { on: 'MessageReceived', retry: { attempts: 9, firstMs: 10, maxMs: 50 }, async handle(event, ctx) {
  note('begin', event);
  const ms = event.data.body.startsWith('slow') ? Number(event.data.body.slice(4)) : Number(process.env.HANDLER_MS ?? 0);
  if (ms > 0) await new Promise((done) => setTimeout(done, ms));
  note('end', event);
} };
`;

/** A handler that writes a row into a table of its own, and keeps that transaction open for a while. */
export const COMPLETING = `${NOTE}export default {
  on: 'MessageReceived',
  retry: { attempts: 9, firstMs: 10, maxMs: 50 },
  setup: (tx) => tx.run('create table if not exists written (cursor bigint, instance int)'),
  async handle(event, ctx) {
    await ctx.complete(async (tx) => {
      await tx.run('insert into written values (?, ?)', event.cursor, instance);
      note('begin', event);
      await tx.get('select pg_sleep(0.04)');
    });
    note('end', event);
  },
};
`;

export interface Ran {
  what: 'begin' | 'end';
  cursor: number;
  lane: string;
  /** The main process of the instance. */
  instance: number;
  /** Unix milliseconds. */
  at: number;
}

export type Cluster = Awaited<ReturnType<typeof createCluster>>;

export async function createCluster(
  url = urlOf(String(Math.random())),
  handlers: Record<string, string> = { noting: NOTING },
) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-members-'));
  const ran = join(folder, 'ran');
  /** Undefined: it was lost, for example because the server was restarted. */
  let client: Client | undefined;
  const schema = new URL(url).searchParams.get('schema') ?? 'kit';
  const kits: Kit[] = [];

  return {
    url,
    folder,
    kits,
    /** Makes an instance that is not started yet. `address`: where it finds the store, for example a proxy. */
    async make(env: Record<string, string> = {}, address = url): Promise<Kit> {
      const kit = await createKit(handlers, { DATABASE_URL: address, RAN: ran, ...env });
      kits.push(kit);
      return kit;
    },
    async add(env: Record<string, string> = {}, address = url): Promise<Kit> {
      const kit = await this.make(env, address);
      await kit.start();
      return kit;
    },
    async rows<Row extends object>(sql: string): Promise<Row[]> {
      client ??= await connect(url, () => (client = undefined));
      return (await client.query(sql.replaceAll('kit.', `${schema}.`))).rows as Row[];
    },
    /** The kit that leads. Undefined: none does now. */
    async leader(): Promise<Kit | undefined> {
      const [row] = await this.rows<{ name: string }>(
        'select name from kit.lead l join kit.instances i on i.instance = l.instance',
      );
      return kits.find((kit) => row?.name.endsWith(`:${kit.main()}`));
    },
    ran(): Ran[] {
      const lines = existsSync(ran) ? readFileSync(ran, 'utf8').trim().split('\n') : [];
      return lines.filter(Boolean).map((line) => {
        const [what = '', cursor, lane = '', instance, at] = line.split(' ');
        return { what: what as Ran['what'], cursor: Number(cursor), lane, instance: Number(instance), at: Number(at) };
      });
    },
    async remove(): Promise<void> {
      await Promise.all(kits.map((kit) => kit.remove()));
      await this.rows(`drop schema if exists ${schema} cascade`).catch(() => {});
      await client?.end().catch(() => {});
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Sends events to the kits in turn, like a balancer: one that does not answer with a 2xx is not asked again at once. */
export function send(kits: Kit[], perSecond: number, lanes = 10, first = 0) {
  const acknowledged = new Set<number>();
  const answers: { status: number; ms: number; port: number }[] = [];
  const pending = new Set<Promise<void>>();
  let n = 0;
  const stopping = new AbortController();
  const started = performance.now();

  async function one(event: TestEvent, turn: number): Promise<void> {
    for (let tries = 0; ; tries++) {
      const kit = kits[(turn + tries) % kits.length] as Kit;
      const at = performance.now();
      const status = await deliver(kit, event);
      answers.push({ status, ms: performance.now() - at, port: kit.port });
      if (status === 204) return void acknowledged.add(Number(event.cursor));
      if (stopping.signal.aborted) return;
      await sleep(20);
    }
  }

  const sending = (async () => {
    while (!stopping.signal.aborted) {
      for (; n < ((performance.now() - started) * perSecond) / 1_000; n++) {
        const delivery = one(makeEvent(first + n, lanes), n);
        pending.add(delivery);
        void delivery.finally(() => pending.delete(delivery));
      }
      await sleep(5);
    }
  })();

  return {
    acknowledged,
    answers,
    /** The number of the next event. */
    sent: () => first + n,
    async stop(): Promise<void> {
      stopping.abort();
      await sending;
      await Promise.all(pending);
    },
  };
}

/** The process of a kit that runs this file of src. */
export function childOf(kit: Kit, file: string): number | undefined {
  return familyOf(kit).find((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(file);
    } catch {
      return false;
    }
  });
}

/** The main process of a kit, and its children. */
export function familyOf(kit: Kit): number[] {
  const main = kit.main() ?? 0;
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const children = pids.filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === main;
    } catch {
      return false;
    }
  });
  return [main, ...children.map(Number)];
}

export function signalAll(pids: number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended.
    }
  }
}

async function connect(url: string, onLost: () => void): Promise<Client> {
  const address = new URL(url);
  address.searchParams.delete('schema');
  const client = new Client({ connectionString: address.href });
  client.on('error', onLost);
  client.on('end', onLost);
  await client.connect();
  return client;
}
