// Replaces the store with a backup while no receiver runs on it.
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { iso } from '../../base/clock.ts';
import { lockStore } from '../../store/sqlite/lock.ts';
import { putInPlace } from '../../store/sqlite/admin/backup.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { clean, print, printJson } from '../lib/print.ts';
import { clock, fileOfStore } from '../lib/store.ts';

export default {
  summary: 'replace the store with a backup',
  usage: 'restore <file> [--json]     the receiver must be stopped',
  async run(args) {
    const { values, positionals } = parse(args, { flags: ['json'] });
    const [file] = positionals;
    if (!file || positionals.length > 1) throw new UsageError('name the backup to restore');
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new UsageError(`there is no file ${file}`);
    const storePath = fileOfStore();
    const lock = lockStore(storePath);
    try {
      const kept = putInPlace(resolve(file), storePath, iso(clock.now()) ?? '');
      if (values.json) printJson({ restored: storePath, kept: kept.file, log: kept.log, unpaused: kept.unpaused });
      else {
        print(`${storePath} is the backup now${kept.file ? `; the old store is ${kept.file}` : ''}.`);
        if (kept.log) print(`${kept.log} is the log of a file that is gone. Do not use it with another file.`);
        const unpaused = kept.unpaused.map((name) => (name === '*' ? 'all handlers' : clean(name))).join(', ');
        if (unpaused)
          print(
            `Paused before, but not in the backup: ${unpaused}. To stop them again, npx kit pause --all before you start.`,
          );
        print('Start the receiver: replay fetches newer events, if API_BASE_URL and API_KEY are set.');
        print('Handlers run again on the events since the backup, with the same ctx.idempotencyKey.');
      }
    } finally {
      lock.close();
    }
  },
} satisfies Command;
