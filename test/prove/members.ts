// Three kits on one PostgreSQL server, under load: one after another is killed, frozen or cut off from the server.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { orUndefined } from '../../src/base/errors.ts';
import { deliver, startKit, until, type Kit } from '../harness.ts';
import { startServer } from '../postgres/server.ts';
import { failure, unless, type Options, type Row } from './report.ts';

const FAULTS = { short: 12, long: 500 };
const SESSIONS = 25;
const APART_MS = 5;
/** The longest freeze. The others judge a kit that has given no sign of life for 10 s. */
const FROZEN_MS = 16_000;
/** How long the service waits for an answer. */
const LONGEST_MS = 10_000;
/** For the backlog: on two cores the faults, one each 2 s, cost more than half of what three kits can handle. */
const BACKLOG_MS = 900_000;
const HANDLER = `import { setTimeout as sleep } from 'node:timers/promises';
export default { on: '*', order: 'arrival', setup: ['create table done (cursor bigint, late int, at bigint)'],
  async handle({ cursor }, ctx) {
    await sleep(3);
    const insert = 'insert into done values ($1, $2, $3)';
    await ctx.complete((tx) => tx.run(insert, cursor, Number(ctx.late), Date.now()));
  } };`;
const MISORDERED = `select count(*) as n from (select d.cursor, d.late, max(d.cursor) over (partition by e.session
  order by d.at, d.cursor rows between unbounded preceding and 1 preceding) as before
  from done d join events e on e.cursor = d.cursor) o where cursor < before and late = 0`;

/** A kit that may be away. Deliveries go to the others. */
interface Member {
  kit: Kit;
  isAway: boolean;
  /** How often it went away. */
  faults: number;
}

export async function members({ short, progress }: Options): Promise<Row[]> {
  const most = short ? FAULTS.short : FAULTS.long;
  const server = await startServer({ safe: true });
  const env = { DATABASE_URL: `${server.url}?schema=members` };
  const start = async (): Promise<Member> => ({
    kit: await startKit({ handlers: { 'one.ts': HANDLER }, env }),
    isAway: false,
    faults: 0,
  });
  const all = [await start(), await start(), await start()];
  const admin = new Client({ connectionString: server.url, options: '-c search_path=members' });
  await admin.connect();
  const number = async (sql: string): Promise<number> =>
    Number(((await admin.query(sql)).rows as { n: unknown }[])[0]?.n ?? 0);
  const sender = createSender(all);
  // If the machine stands still, answers are late without a fault of the kit.
  const still = monitorEventLoopDelay();
  still.enable();
  const did: Record<string, number> = {};
  const acts = { kill, freeze, cut, run: killRun };
  for (let n = 0; n < most; n++) {
    await sleep(1_000 + Math.random() * 2_000);
    await until('two to be there', () => all.filter(({ isAway }) => !isAway).length > 1);
    const there = all.filter(({ isAway }) => !isAway);
    const name = Object.keys(acts)[n % 4] as keyof typeof acts;
    did[name] = (did[name] ?? 0) + 1;
    const member = there[Math.floor(Math.random() * there.length)];
    if (member) await acts[name](member, admin);
    if (n % 20 === 19) progress(`${n + 1} of ${most} faults`);
  }
  await until('all to be there', () => all.every(({ isAway }) => !isAway));
  const { sent, longest, refused } = await sender.stop();
  const isOver = async (): Promise<boolean> => (await number('select sum(done) as n from handlers')) === sent;
  const violations = [
    ...(await failure(until('everything to be handled', isOver, BACKLOG_MS))),
    ...unless((await number('select count(*) as n from events')) === sent, 'an event is lost or doubled'),
    ...unless((await number('select count(*) as n from done')) === sent, 'a task is completed twice, or never'),
    ...unless((await number('select count(distinct cursor) as n from done')) === sent, 'a task is completed twice'),
    ...unless((await number(MISORDERED)) === 0, 'a task ran after a later one, and is not marked late'),
    ...unless(refused === 0, `${refused} answers were no 2xx`),
    ...unless(longest < LONGEST_MS, `an answer took ${Math.round(longest)} ms`),
  ];
  const open = `select t.event, t.attempts, t.crashes, t.error, t.due_at, l.boot, l.due_at as lane_due_at, b.role,
    now_ms() - b.seen_at as silent_ms from tasks t left join lanes l on l.id = t.lane left join boots b on b.id = l.boot
    where t.state <> 1 limit 10`;
  violations.push(...(await admin.query<object>(open)).rows.map((row) => `not done: ${JSON.stringify(row)}`));
  for (const { kit } of all) await kit.stop();
  await admin.end();
  await server.stop();
  const times = `longest answer ${Math.round(longest)} ms, this process stood still ${Math.round(still.max / 1e6)} ms`;
  const seen = `${JSON.stringify(did)}, ${sent} deliveries, ${times} at most`;
  return [{ what: 'three kits on PostgreSQL, killed, frozen and cut off under load', seen, violations }];
}

/** Sends until it is stopped. Whatever gets no 204 is sent again, to any kit that is not away. */
function createSender(all: Member[]) {
  const seen = { sent: 0, longest: 0, refused: 0 };
  const sending: Promise<void>[] = [];
  async function send(n: number): Promise<void> {
    const event = { id: `e${n}`, cursor: String(n), type: 'Thing', data: { session_id: `s${n % SESSIONS}` } };
    for (;;) {
      const there = all.filter(({ isAway }) => !isAway);
      const member = there[Math.floor(Math.random() * there.length)];
      if (!member) throw new Error('no kit is there');
      const { faults } = member;
      const since = performance.now();
      const status = await deliver(member.kit.url, event).catch(() => 0);
      // A kit that is frozen answers when it goes on.
      const counts = status > 0 && member.faults === faults;
      if (counts) seen.longest = Math.max(seen.longest, performance.now() - since);
      if (status === 204) return;
      if (counts) seen.refused++;
      await sleep(200);
    }
  }
  const timer = setInterval(() => void sending.push(send(++seen.sent)), APART_MS);
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(sending);
      return seen;
    },
  };
}

async function kill(member: Member): Promise<void> {
  member.isAway = true;
  member.faults++;
  await member.kit.kill();
  // As a service manager does, which starts it again if it ends.
  const start = (): Promise<unknown> => member.kit.start().catch(start);
  void sleep(Math.random() * 5_000)
    .then(start)
    .then(() => (member.isAway = false));
}

/** Some of these processes may have ended meanwhile. */
function signal(pids: number[], name: NodeJS.Signals): void {
  for (const pid of pids) orUndefined(() => process.kill(pid, name));
}

function freeze(member: Member): void {
  member.isAway = true;
  member.faults++;
  const pids = member.kit.pids();
  signal(pids, 'SIGSTOP');
  const thaw = (): void => {
    signal(pids, 'SIGCONT');
    member.isAway = false;
  };
  setTimeout(thaw, Math.random() * FROZEN_MS);
}

function killRun({ kit }: Member): void {
  signal(kit.pids('run/main'), 'SIGKILL');
}

/** Ends about half of all connections. */
function cut(_: Member, admin: Client): Promise<unknown> {
  return admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'webhook-receiver-kit' and random() < 0.5`);
}
