// The alarm about the store, as the main process raises it: it depends neither on the store nor on `keep`. And what the
// main process says of itself, to `keep` and to who asks the receiver.
import { createBoard } from './board.ts';
import type { Children } from '../processes/children.ts';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import type { Logger } from '../base/log.ts';
import { startLoop } from '../base/loop.ts';
import { createNotifier } from './notifier.ts';
import type { Account } from '../processes/channel.ts';
import type { ReceiverState } from '../receive/app.ts';
import { freeBytesOf } from '../store/sqlite/folder.ts';
import { fingerprintOf, writerOf } from '../store/sqlite/lock.ts';
import { watchStore, type StoreWatch } from './store-watch.ts';

/** Between two looks whether the store can be written: while all is well, and while it is not. */
const LOOK_MS = { well: 2_000, failing: 250 };
const TELL_MS = 1_000;
/** A store that has failed for this long is not ready. */
const READY_MS = 1_000;

/** The present failure run. */
type Run = Pick<Account, 'failureRun' | 'causes'>;

export interface StoreAlarm {
  /** All that the main process writes goes through these. */
  writes: StoreWatch['writes'];
  /** A delivery was answered with 503. */
  refused(): void;
  /** Judges, tells people and `keep`; `waiting` deliveries have no answer yet. Milliseconds until the next look. */
  look(waiting: number, run: Run): Promise<number>;
  /** Tells `keep` at once. */
  report(run: Run): void;
  state(): ReceiverState;
  useUrl(url: string | undefined): void;
  stop(): Promise<void>;
}

export function createStoreAlarm({
  store,
  config,
  children,
  clock,
  log,
}: {
  store: StoreWatch['writes'];
  config: Config;
  children: Pick<Children, 'processes' | 'report'>;
  clock: Clock;
  log: Logger;
}): StoreAlarm {
  const { storePath, ALERT_URL: url, API_KEY: key } = config;
  const stopping = new AbortController();
  const watch = watchStore(store, clock);
  const notifier = createNotifier({ url, clock, log, signal: stopping.signal });
  const board = createBoard({ clock, log, notifier });
  const around = { writer: () => writerOf(storePath), recovers: key !== undefined };
  const processes = (): Account['processes'] => ({ receive: 'up', ...children.processes() });
  // A loop of its own: ALERT_URL may take its time, and nothing waits for it.
  const telling = startLoop(async () => {
    await board.tell();
    return TELL_MS;
  });

  function report(run: Run): void {
    children.report({ processes: processes(), alarms: board.up(), ...run });
  }

  return {
    writes: watch.writes,
    refused: () => watch.refused(),
    async look(waiting, run) {
      if (waiting === 0) await watch.retry(() => freeBytesOf(storePath));
      board.hold(watch.judge({ ...around, waiting, failureRun: run.failureRun }));
      telling.wake();
      report(run);
      return watch.failing() ? LOOK_MS.failing : LOOK_MS.well;
    },
    report,
    state: () => ({
      writable: watch.silentMs() < READY_MS,
      store: fingerprintOf(storePath),
      processes: processes(),
      alarms: board.up(),
    }),
    useUrl: (next) => notifier.useUrl(next),
    async stop() {
      stopping.abort();
      await telling.stop();
    },
  };
}
