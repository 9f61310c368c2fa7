// The PostgreSQL store: all roles on one connection, which is opened again after it was lost. A commit is on the disk of
// the server when it ends.
import { hostname } from 'node:os';
import { atMostEvery } from '../../base/loop.ts';
import type { Accepted, Batch } from '../ingest.ts';
import type { Process } from '../processes.ts';
import { retryWhileBusy } from '../retry-while-busy.ts';
import type { OpenOptions } from '../site.ts';
import { assembleRoles } from '../sql/roles.ts';
import { createSession } from '../sql/session.ts';
import type { Roles, Store } from '../store.ts';
import { addressOf, createConnection, type Connection } from './connection.ts';
import { createDatabase } from './database.ts';
import { faultOf } from './fault.ts';
import { createEventTable } from './ingest.ts';
import { createMembers } from './members.ts';

/**
 * Maximum time for the answer to a statement, milliseconds. Then the connection is given up. A delivery waits for 8 s, so
 * there is time for another connection.
 */
const ANSWER_MS = { deliveries: 3_500, others: 10_000 };
/** For a statement that may take long. */
const PATIENT = { query_timeout: 3_600_000 };
/** Minimum interval between two rings, because each costs a statement. */
const RING_MS = 10;
/** Maximum milliseconds to retry the part of a batch that was not new. */
const REST_MS = 6_000;

export function openPostgres(url: string, options: OpenOptions = {}): Store {
  const { owner = false, onDropped = () => {}, onMigrated } = options;
  const address = addressOf(url);
  const { schema, name } = address;
  const connection = createConnection(address, owner, owner ? ANSWER_MS.deliveries : ANSWER_MS.others, onMigrated);
  // Signs of life have a connection of their own, because deliveries may wait long for a lock.
  const aside = owner ? createConnection(address, true, ANSWER_MS.deliveries, onMigrated) : connection;
  const instance = (): number => (owner ? members.instance() : (options.instance ?? 0));
  const database = createDatabase({ connection, schema, name, instance });
  const session = createSession(database);
  const members = createMembers(
    owner ? createSession(createDatabase({ connection: aside, schema, name, instance })) : session,
    schema,
  );
  const { table, deliver } = createEventTable(session, database.atOnce, schema);
  const roles = assembleRoles(session, {
    events: table,
    onDropped,
    dropOldIds: async () => {},
    checkpoint: async () => 0,
    // An update leaves the old version of the row until a vacuum.
    shred: async (last) => void (last && (await connection.query(`vacuum ${schema}.events`, undefined, PATIENT))),
  });
  const addBoot = session.statement('insert into boots values (?, ?)');
  const bootsOfOthers = session.value<number>(`
    select boot from boots b where b.instance <> ? and exists (
      select 1 from instances i where i.instance = b.instance and i.lost_at is null)`);
  const processesHere = session.statement<Process>(`
    select role, pid, started, boot from processes p left join instances i on i.instance = p.instance
    where p.instance = 0 or (i.name like ? and i.lost_at is null) order by p.instance desc`);
  const inTurn = queueOf(connection, failed);
  const inTurnAside = owner ? queueOf(aside, failed) : inTurn;

  function failed(given: unknown): never {
    const error = faultOf(given, name) ?? given;
    throw error;
  }

  function queued<Role extends object>(role: Role, within = (work: () => Promise<unknown>) => work()): Role {
    const methods = Object.entries(role) as [string, (...args: unknown[]) => Promise<unknown>][];
    return Object.fromEntries(
      methods.map(([method, call]) => [method, (...args: unknown[]) => inTurn(() => within(() => call(...args)))]),
    ) as Role;
  }

  const accept = (batch: Batch): Promise<Accepted[]> => inTurn(() => roles.ingest.accept(batch));

  const ingest: Roles['ingest'] = {
    async accept(batch) {
      const rest = await inTurn(() => deliver(batch));
      if (rest === null) return accept(batch);
      // The counters of the batch are committed, so a failure of the rest must not repeat them.
      const { now } = batch;
      const others = rest.length === 0 ? [] : await retryWhileBusy(() => accept({ readings: rest, now }), REST_MS);
      const verdicts = new Map(rest.map((reading, n) => [reading, others[n]]));
      return batch.readings.map((reading) => verdicts.get(reading) ?? { verdict: 'new' });
    },
    // Every commit is synced by the server.
    sync: async () => {},
  };

  return {
    ingest,
    state: queued(roles.state),
    work: queued(roles.work),
    processes: {
      ...queued(roles.processes),
      settle: () => inTurn(async () => {}),
      // A pid says nothing on another machine.
      list: () => inTurn(() => processesHere.all(`${hostname()}:%`)),
      beat: (process, now) =>
        inTurn(async () => {
          await connection.follow();
          await roles.processes.beat(process, now);
        }),
      nextBoot: () =>
        inTurn(() =>
          session.write(async () => {
            const boot = await roles.processes.nextBoot();
            await addBoot.run(boot, instance());
            return boot;
          }),
        ),
      // The claims of other living instances hold. Within the lock, nobody begins to claim.
      giveBack: (alive, ...given) =>
        inTurn(() =>
          session.write(
            async () => roles.processes.giveBack([...alive, ...(await bootsOfOthers.all(instance()))], ...given),
            'work',
          ),
        ),
      lead: (...given) => inTurnAside(() => members.lead(...given)),
      resign: () => inTurnAside(members.resign),
      leave: () => inTurnAside(members.leave),
      instances: () => inTurnAside(members.instances),
    },
    replay: queued(roles.replay),
    alarms: queued(roles.alarms),
    keep: queued(roles.keep),
    read: {
      // Only transactions find rows by index alone (database.ts). A plan that reads a whole table takes seconds.
      ...queued(roles.read, session.write),
      // Both write, in transactions of their own.
      sample: (now) => inTurn(() => roles.read.sample(now)),
      async status(now) {
        const status = await inTurn(() => roles.read.status(now));
        return { ...status, instances: await inTurnAside(members.instances) };
      },
    },
    admin: queued(roles.admin),
    now: connection.now,
    ring: atMostEvery(RING_MS, () => void inTurnAside(() => aside.query(`notify ${schema}`)).catch(() => {})),
    onRing: connection.onRing,
    close() {
      connection.close();
      aside.close();
    },
  };
}

/** Runs one piece of work after another, because they share the connection and its transaction. */
function queueOf(connection: Connection, failed: (error: unknown) => never) {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = last
      .then(async () => {
        await connection.open();
        return work();
      })
      .catch((error: unknown) => {
        // The state of the connection is not known.
        if (faultOf(error, '')?.code === 'unwritable') connection.drop();
        return failed(error);
      });
    last = result.catch(() => {});
    return result;
  };
}
