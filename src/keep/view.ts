// The kit's state as people see it. It is read from the store; while that fails, the values read last are shown. For
// processes and deliveries, the account of the main process takes precedence.
import type { Account } from '../processes/channel.ts';
import { orNone } from '../store/or-none.ts';
import type { Alarm, Status, ReadStore } from '../store/read.ts';

type View = Pick<ReadStore, 'status' | 'counters'>;

/** The status until the store can be read for the first time. */
export const UNREAD: Status = {
  events: 0,
  unassigned: 0,
  undecided: 0,
  duplicates: 0,
  quarantined: 0,
  conflicts: 0,
  tasks: { held: 0, ready: 0, running: 0, done: 0, skipped: 0, dead: 0 },
  oldestReadySeconds: null,
  watermark: null,
  floor: null,
  newestCursor: null,
  reconcile: { state: 'off', since: null, lastAt: null, reason: null, progress: null, recovered: 0 },
  stream: { state: 'off', since: null, reason: null },
  gaps: 0,
  failureRun: 0,
  failures: { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null },
  lastDeliveryAt: null,
  secrets: [],
  alarms: [],
  processes: { receive: 'up', run: 'up', keep: 'up' },
  instances: [],
  waiting: [],
  moving: null,
  paused: [],
};

export function withAccount(status: Status, account: Account | undefined): Status {
  if (!account) return status;
  const { failureRun, causes, processes } = account;
  // Several instances: the account tells of this one alone.
  if (status.instances.length > 1) return status;
  return { ...status, failureRun, failures: { ...status.failures, causes }, processes };
}

export function createView({
  store,
  account,
  up,
}: {
  store: View;
  account: () => Account | undefined;
  /** The alarms that this process has raised. Null: it raises none, and the store holds those of another instance. */
  up: () => Alarm[] | null;
}): View {
  let status = UNREAD;
  let counters: Record<string, number> = {};

  return {
    async status(now) {
      status = (await orNone(() => store.status(now))) ?? status;
      const main = account();
      // This code runs in `keep`, which ends with the main process, so both processes are up.
      const processes = { ...status.processes, receive: 'up', keep: 'up' } as const;
      const own = main?.alarms ?? [];
      const others = (up() ?? status.alarms).filter(({ name }) => !own.some((one) => one.name === name));
      return { ...withAccount({ ...status, processes }, main), alarms: [...own, ...others] };
    },
    async counters() {
      counters = (await orNone(() => store.counters())) ?? counters;
      return counters;
    },
  };
}
