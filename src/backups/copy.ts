// A process that writes one backup. SQLite works on it for minutes without a break: neither a kit that stops nor a person
// who looks at the progress should wait for that.
import { fork, type ForkOptions } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { describe } from '../base/errors.ts';
import { endWithOwner } from '../processes/channel.ts';
import { backUp } from '../store/sqlite/admin/backup.ts';
import { StoreError } from '../store/store.ts';

const LOWEST = 19;

type Outcome = { bytes: number } | { code?: StoreError['code']; fault: string };

/** Resolves to the size of the verified copy. Throws StoreError. */
export async function copyStore(path: string, to: string, signal?: AbortSignal): Promise<number> {
  // The environment holds secrets, which a copy does not need.
  const options: ForkOptions = { env: {}, execArgv: [], killSignal: 'SIGKILL', ...(signal && { signal }) };
  const child = fork(import.meta.filename, [path, to], options);
  let outcome = { fault: 'the process that copies ended: see the log and dmesg' } as Outcome;
  child.on('message', (message: Outcome) => (outcome = message));
  await once(child, 'exit');
  if ('bytes' in outcome) return outcome.bytes;
  throw new StoreError(outcome.code ?? 'unwritable', outcome.fault);
}

function work(path: string, to: string): Outcome {
  try {
    return { bytes: backUp(path, to) };
  } catch (error) {
    // The message of a StoreError holds that of its cause.
    if (error instanceof StoreError) return { code: error.code, fault: error.message };
    return { fault: describe(error).message };
  }
}

if (process.argv[1] === import.meta.filename) {
  endWithOwner();
  setPriority(LOWEST);
  const [path = '', to = ''] = process.argv.slice(2);
  process.send?.(work(path, to), () => process.exit());
}
