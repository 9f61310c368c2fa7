// Checks of a PostgreSQL store: settings on which the promise depends, and room for the kit's connections.
import type { Store } from '../../store/store.ts';
import type { SqlRow } from '../../store/work.ts';
import { withStore } from '../lib/store.ts';
import { fault, ok, skipped, warning, type Check, type Finding } from './check.ts';

const OLDEST = 140_000;
/** Connections of one instance: two of receive, one each of run, keep and a process for an isolated task. */
const CONNECTIONS = 5;
const SKEW_MS = 5_000;
const OLD_TRANSACTION_SECONDS = 3_600;

const FACTS = `select current_setting('server_version_num') as version, current_setting('server_version') as named,
  current_setting('synchronous_commit') as sync, current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes, current_setting('default_transaction_isolation') as isolation,
  cast(current_setting('max_connections') as int) as most, (select cast(count(*) as int) from pg_stat_activity) as used,
  current_setting('synchronous_standby_names') as standbys,
  (select cast(count(*) as int) from pg_stat_replication) as replicas,
  cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as now,
  (select cast(coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0) as bigint) from pg_stat_activity
    where backend_type = 'client backend') as oldest`;

export const server: Check = {
  name: 'store server',
  needs: ['DATABASE_URL'],
  async run({ config, clock }) {
    if (config.storePath !== null) return skipped('the store is a file');
    return withStore(async (store) => {
      const before = clock.now();
      const [facts = {}] = await store.work.read(FACTS, []);
      const offMs = Number(facts['now']) - (before + clock.now()) / 2;
      return [...settingsOf(facts), ...roomOf(facts), clockOf(offMs), await poolerOf(store)];
    }, config);
  },
};

function settingsOf(facts: SqlRow): Finding[] {
  const findings: Finding[] = [];
  if (Number(facts['version']) < OLDEST)
    findings.push(fault(`PostgreSQL ${String(facts['named'])}`, 'update the server to PostgreSQL 14 or newer'));
  for (const setting of ['fsync', 'full_page_writes'])
    if (facts[setting] !== 'on')
      findings.push(fault(`${setting} is off: a crash of the server loses events`, `set ${setting} = on`));
  if (facts['isolation'] !== 'read committed')
    findings.push(
      fault(`transactions are ${String(facts['isolation'])}`, 'set default_transaction_isolation = read committed'),
    );
  if (Number(facts['replicas']) > 0 && facts['standbys'] === '')
    findings.push(
      warning(
        'replication is asynchronous: a failover may lose acknowledged events',
        'set synchronous_standby_names, or accept it',
      ),
    );
  if (findings.length > 0) return findings;
  return [ok(`PostgreSQL ${String(facts['named'])}, synchronous_commit ${String(facts['sync'])}, fsync on`)];
}

function roomOf(facts: SqlRow): Finding[] {
  const free = Number(facts['most']) - Number(facts['used']);
  const room = `${free} of ${Number(facts['most'])} connections are free`;
  const oldest = Number(facts['oldest']);
  return [
    free < 2 * CONNECTIONS
      ? warning(room, `an instance needs ${CONNECTIONS}: raise max_connections, or use a pooler`)
      : ok(room),
    ...(oldest > OLD_TRANSACTION_SECONDS
      ? [warning(`a transaction is open for ${oldest} s`, 'end it (pg_stat_activity): meanwhile tables only grow')]
      : []),
  ];
}

function clockOf(offMs: number): Finding {
  const off = `the server's clock is ${(Math.abs(offMs) / 1000).toFixed(1)} s ${offMs < 0 ? 'behind' : 'ahead of'} this one`;
  return Math.abs(offMs) > SKEW_MS ? warning(off, 'set both by NTP: signatures are checked by this one') : ok(off);
}

/** With a pooler in transaction mode, two transactions of a connection may run in two server processes. */
async function poolerOf(store: Store): Promise<Finding> {
  const pids = new Set<unknown>();
  for (let n = 0; n < 8; n++) pids.add((await store.work.read('select pg_backend_pid() as pid', []))[0]?.['pid']);
  return pids.size > 1
    ? warning(
        'a pooler in transaction mode is in between',
        'set its max_prepared_statements above 0; instances wake each other later, up to 0.5 s',
      )
    : ok('one server process for each connection');
}
