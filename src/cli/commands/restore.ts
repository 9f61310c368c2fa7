// Replaces the store with a backup while no receiver runs on it.
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { iso } from '../../base/clock.ts';
import { lockStore } from '../../store/sqlite/lock.ts';
import { putInPlace, type Kept } from '../../store/sqlite/admin/backup.ts';
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
      const { file: old, log, unpaused, unerased } = kept;
      if (values.json) printJson({ restored: storePath, kept: old, log, unpaused, unerased });
      else {
        print(`${storePath} is the backup now${kept.file ? `; the old store is ${kept.file}` : ''}.`);
        if (kept.log) print(`${kept.log} is the log of a file that is gone. Do not use it with another file.`);
        showLost(kept);
        print('Start the receiver: replay fetches newer events, if API_BASE_URL and API_KEY are set.');
        print('Handlers run again on the events since the backup, with the same ctx.idempotencyKey.');
      }
    } finally {
      lock.close();
    }
  },
} satisfies Command;

function showLost({ unpaused, unerased }: Kept): void {
  const names = unpaused.map((name) => (name === '*' ? 'all handlers' : clean(name))).join(', ');
  if (names)
    print(`Paused before, but not in the backup: ${names}. To stop them again, npx kit pause --all before you start.`);
  if (unerased)
    print(
      'Messages that were erased since the backup are back, and replay may bring more: npx kit erase for the same people, again once reconciliation is idle.',
    );
}
