// What people are shown of the kit's state: as the store has it, or had it when it could be read last; and with what the
// processes know by themselves, which holds where the store says otherwise.
import type { Account } from '../processes/channel.ts';
import { StoreError } from '../store/store.ts';
import type { Alarm, Status, ReadStore } from '../store/read.ts';

type View = Pick<ReadStore, 'status' | 'counters'>;

/** Of a store that could not be read yet. */
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
};

export function withAccount(status: Status, account: Account | undefined): Status {
  if (!account) return status;
  const { failureRun, causes, processes } = account;
  return { ...status, failureRun, failures: { ...status.failures, causes }, processes };
}

export function createView({
  store,
  account,
  up,
}: {
  store: View;
  account: () => Account | undefined;
  /** The alarms that this process has raised. */
  up: () => Alarm[];
}): View {
  let status = UNREAD;
  let counters: Record<string, number> = {};

  return {
    async status(now) {
      status = (await orNone(() => store.status(now))) ?? status;
      const main = account();
      // Whoever asks is answered by keep, which lives no longer than the main process.
      const processes = { ...status.processes, receive: 'up', keep: 'up' } as const;
      return { ...withAccount({ ...status, processes }, main), alarms: [...(main?.alarms ?? []), ...up()] };
    },
    async counters() {
      counters = (await orNone(() => store.counters())) ?? counters;
      return counters;
    },
  };
}

async function orNone<Result>(read: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
}
