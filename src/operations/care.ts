// What people do with the store: erase a person's messages, and back the store up.
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { define, Refused } from './define.ts';
import { isRead, reconcileOf } from './judge.ts';
import { eventNamed } from './named.ts';
import { copyStore } from './store/copy.ts';
import { erase as eraseEvents } from './store/erase.ts';
import { readFacts } from './store/facts.ts';
import { tell } from './store/open.ts';

export const erase = define({
  name: 'erase',
  about: "erases a person's messages, or the content of one event; ids, times and outcomes stay",
  args: z.object({
    sender: z.string().trim().min(4).optional().describe("the person's phone number or address, as in the events"),
    event: z.string().min(1).optional().describe('one event: its key, id or cursor'),
  }),
  access: 'change',
  async run({ db }, { sender, event }) {
    if ((sender === undefined) === (event === undefined))
      throw new Refused('say what to erase: either --sender or --event');
    const what = event === undefined ? { text: sender ?? '' } : { event: (await eventNamed(db, event)).seq };
    const erased = await eraseEvents(db, what);
    // Until the WAL is emptied, it holds what was erased.
    let emptied: number | null = null;
    for (let n = 0; n < 50 && emptied === null; n++, await sleep(n * 4)) emptied = await db.checkpoint('truncate');
    if (emptied === null)
      throw new Refused('erased, but still in the WAL file: end the programs that read the store, then erase again');
    const facts = await readFacts(db);
    const mayComeBack = sender !== undefined && (reconcileOf(facts).state === 'running' || !isRead(facts));
    const words = mayComeBack
      ? 'History is not read to its end and may bring more: erase again when the status shows reconcile: state idle'
      : erased.events + erased.quarantined === 0
        ? 'Nothing to erase was found. Is a sender exactly as in the events? See npx kit events --text'
        : 'Not touched: tables of your own handlers, backups, and what handlers sent elsewhere';
    return { ...erased, mayComeBack, words };
  },
  fails: ({ mayComeBack }) => mayComeBack,
});

export const backup = define({
  name: 'backup',
  about: 'copies the store into BACKUP_DIR and verifies the copy, while the kit runs',
  args: z.object({}),
  access: 'change',
  async run({ db, clock, config }) {
    const { storePath, BACKUP_DIR: folder } = config();
    if (storePath === null) throw new Refused('a store on PostgreSQL is backed up by its own tools, like pg_dump');
    if (folder === undefined) throw new Refused('say where: set BACKUP_DIR');
    const at = clock.now();
    const file = await copyStore(storePath, folder, at);
    await tell(db, 'backup', { at, error: null });
    return { file, words: 'The backup holds messages: keep it as safe as the store. npx kit restore puts it back' };
  },
});
