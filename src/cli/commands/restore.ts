// Puts a backup in the place of the store, while no receiver works on it.
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { iso } from '../../base/clock.ts';
import { loadConfig, readEnv } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import { lockStore } from '../../store/sqlite/lock.ts';
import { putInPlace } from '../../store/sqlite/backup.ts';
import { clock, parse, print, printJson, UsageError, type Command } from '../lib/command.ts';

const command: Command = {
  summary: 'put a backup in the place of the store; the receiver must be stopped',
  usage: 'restore <file> [--json]',
  async run(args) {
    const { values, positionals } = parse(args, { json: { type: 'boolean' } });
    const [file] = positionals;
    if (!file || positionals.length > 1) throw new UsageError('name the backup to restore');
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new UsageError(`there is no file ${file}`);
    const { storePath } = loadConfig(readEnv(), { only: ['DATABASE_URL'] });
    const lock = lockStore(storePath);
    try {
      const kept = putInPlace(resolve(file), storePath, iso(clock.now()) ?? '');
      if (values.json) printJson({ restored: storePath, kept: kept.file, log: kept.log });
      else {
        print(`${storePath} is the backup now${kept.file ? `; what was there is ${kept.file}` : ''}.`);
        if (kept.log) print(`${kept.log} is the log of a file that is gone: no other can be read with it.`);
        print('Start the receiver: replay fetches what came since, if API_BASE_URL and API_KEY are set.');
        print('Handlers see again what they had done since the backup: ctx.idempotencyKey is the same as then.');
      }
      return EXIT.done;
    } finally {
      lock.close();
    }
  },
};
export default command;
