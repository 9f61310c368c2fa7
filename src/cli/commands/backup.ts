// Copies the store into one file while the receiver runs. The copy shows one moment, and was read as a whole.
import { resolve } from 'node:path';
import { copyStore } from '../../backups/copy.ts';
import { requireRoomForBackup } from '../../backups/room.ts';
import { sizeOf } from '../../store/sqlite/file-identity.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { print, printJson } from '../lib/print.ts';
import { clock, fileOfStore } from '../lib/store.ts';

export default {
  summary: 'copy the store while the receiver runs',
  usage: 'backup [file] [--json]',
  async run(args) {
    const { values, positionals } = parse(args, { flags: ['json'] });
    if (positionals.length > 1) throw new UsageError('only one file can be named');
    const storePath = fileOfStore();
    const moment = new Date(clock.now()).toISOString().replaceAll(/[:.]/g, '-');
    const to = resolve(positionals[0] ?? `${storePath}.backup-${moment}`);
    requireRoomForBackup(storePath, to, sizeOf(storePath) + sizeOf(`${storePath}-wal`));
    const bytes = await copy(storePath, to);
    if (values.json) printJson({ file: to, bytes });
    else print(`${to}: ${megabytes(bytes)}. It holds messages: keep it as safe as the store itself.`);
  },
} satisfies Command;

async function copy(path: string, to: string): Promise<number> {
  const progress = setInterval(() => {
    process.stderr.write(`${megabytes(sizeOf(`${to}.part`))} copied\n`);
  }, 2_000);
  return copyStore(path, to).finally(() => clearInterval(progress));
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
