// Opens the configured store, and finds out whether a kit runs on it.
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import { loadConfig, readEnv } from '../../config.ts';
import type { ReceiverState } from '../../receive/app.ts';
import { open, siteOf } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from './command.ts';
import { clean, fail } from './print.ts';

export const clock = systemClock;

/** Opens the store. SQLite allows this while the receiver runs. */
export async function withStore<Result>(
  work: (store: Store) => Promise<Result>,
  { storeUrl } = loadConfig(readEnv(), { only: ['DATABASE_URL'] }),
): Promise<Result> {
  const store = open(storeUrl, { busyMs: 5_000 });
  try {
    const to = await store.state.get('moved_to');
    if (to !== null) console.error(`this store was moved to ${to}, and is old: set DATABASE_URL to that one`);
    return await work(store);
  } finally {
    store.close();
  }
}

/** The path of an SQLite store. Throws UsageError for another store, which has tools of its own. */
export function fileOfStore(): string {
  const { storePath } = loadConfig(readEnv(), { only: ['DATABASE_URL'] });
  if (storePath !== null) return storePath;
  throw new UsageError(
    'the store is in PostgreSQL: back up and restore it with pg_dump and pg_restore, or the snapshots of its provider',
  );
}

export interface Readiness {
  words: string;
  ready: boolean;
  listens: boolean;
  /** Undefined if nothing listens on the port, or if a kit with another store does. */
  state?: ReceiverState;
}

/**
 * Asks the receiver itself, because the store can be wrong: while nothing can be written, heartbeats stop, and the
 * store shows every process as down.
 */
export async function readiness(
  { PORT, storeUrl } = loadConfig(readEnv(), { only: ['PORT', 'DATABASE_URL'] }),
): Promise<Readiness> {
  try {
    const response = await fetch(`http://127.0.0.1:${PORT}/readyz`, {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(3_000),
    });
    const text = await response.text();
    const said = { ready: response.ok, listens: true };
    if (!response.headers.get('content-type')?.includes('json')) return { ...said, words: clean(text.trim()) };
    const state = JSON.parse(text) as ReceiverState & { words: string };
    const ours = state.store === siteOf(storeUrl).fingerprint ? { state } : {};
    return { ...said, ...ours, words: clean(state.words) };
  } catch {
    return { words: `nothing listens on port ${PORT}`, ready: false, listens: false };
  }
}

/** Says why the kit cannot do what a command asks for, and how to fix it. */
export async function whyDown(): Promise<string> {
  const { words, ready, listens } = await readiness();
  if (!listens) return 'the receiver is not running: npm start';
  const why = ready ? 'another process is down: npx kit status' : `it says that ${words}: npx kit doctor`;
  return `the receiver runs, but ${why}`;
}

/** Waits a few seconds for `keep`, which starts a moment after the receiver. */
export async function keepIsUp(store: Store): Promise<boolean> {
  for (let looks = 0; looks < 50; looks++) {
    const { processes } = await store.read.status(store.now());
    if (processes.keep === 'up' || processes.receive === 'down') return processes.keep === 'up';
    await sleep(100);
  }
  return false;
}

/** Undefined if `keep` can read the service's history. Otherwise prints why not, and resolves to the exit code. */
export async function unlessItReads(store: Store): Promise<number | undefined> {
  if (!(await keepIsUp(store))) return fail(await whyDown(), EXIT.unreachable);
  const { reconcile } = await store.read.status(store.now());
  if (reconcile.state !== 'off') return undefined;
  return fail('reconciliation is off: set API_BASE_URL and API_KEY, then restart the kit', EXIT.configuration);
}
