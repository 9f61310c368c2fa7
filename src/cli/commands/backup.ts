// Copies the store into one file while the receiver runs. The copy is consistent: it shows one moment.
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { EXIT } from '../../base/errors.ts';
import { backUp } from '../../store/sqlite/admin/backup.ts';
import { partOf } from '../../store/sqlite/backup.ts';
import { StoreError } from '../../store/store.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { print, printJson } from '../lib/print.ts';
import { clock, fileOfStore } from '../lib/store.ts';

const command: Command = {
  summary: 'copy the store while the receiver runs',
  usage: 'backup [file] [--json]',
  async run(args) {
    const { values, positionals } = parse(args, { flags: ['json'] });
    if (positionals.length > 1) throw new UsageError('only one file can be named');
    const storePath = fileOfStore();
    const moment = new Date(clock.now()).toISOString().replaceAll(/[:.]/g, '-');
    const to = resolve(positionals[0] ?? `${storePath}.backup-${moment}`);
    await copy({ path: storePath, to });
    const bytes = statSync(to).size;
    if (values.json) printJson({ file: to, bytes });
    else print(`${to}: ${megabytes(bytes)}. It holds messages: keep it as safe as the store itself.`);
    return EXIT.done;
  },
};
export default command;

/** Copies in a worker thread, so that this thread can print the progress. */
async function copy(job: { path: string; to: string }): Promise<void> {
  const worker = new Worker(new URL(import.meta.url), { workerData: job });
  const progress = setInterval(() => {
    const size = statSync(partOf(job.to), { throwIfNoEntry: false })?.size ?? 0;
    process.stderr.write(`${megabytes(size)} copied\n`);
  }, 2_000);
  let failure: StoreError | undefined;
  worker.on('message', ({ code, message }: StoreError) => (failure = new StoreError(code, message)));
  await once(worker, 'exit').finally(() => clearInterval(progress));
  if (failure) throw failure;
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

if (!isMainThread) {
  const { path, to } = workerData as { path: string; to: string };
  try {
    backUp(path, to);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    parentPort?.postMessage({ code: error.code, message: error.message });
  }
}
