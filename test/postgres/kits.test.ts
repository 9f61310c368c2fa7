// Two kits on one server, as a user starts them behind a balancer.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { Connections } from '../../src/store/postgres/connection.ts';
import { deliver, startKit, textOf, until, type Kit } from '../harness.ts';
import { createFolder } from '../store/fixture.ts';

const SESSIONS = 5;
const EACH = 40;
/** As many tasks of 5 ms run in one chain of 50 ms. */
const CHAIN = 10;
const HANDLER = `import { appendFileSync } from 'node:fs';
  import { setTimeout as sleep } from 'node:timers/promises';
  export default { on: '*', order: 'arrival', async handle({ sessionId, cursor }) {
    await sleep(5);
    appendFileSync(process.env.FOLDER + '/lines', sessionId + ' ' + cursor + '\\n');
  } };`;

async function twoKits(): Promise<{ kits: [Kit, Kit]; db: Connections; lines: () => string[] }> {
  const folder = createFolder();
  const url = new URL(inject('postgres') ?? '');
  url.searchParams.set('schema', `kits_${randomBytes(8).toString('hex')}`);
  const options = { handlers: { 'one.ts': HANDLER }, env: { DATABASE_URL: url.href, FOLDER: folder } };
  const kits: [Kit, Kit] = [await startKit(options), await startKit(options)];
  const db = new Connections(url.href, { max: 1 });
  onTestFinished(async () => {
    await Promise.all(kits.map((kit) => kit.stop()));
    await db.write((tx) => tx.query(`drop schema ${db.schema} cascade`));
    await db.close();
  });
  return { kits, db, lines: () => textOf(join(folder, 'lines')).split('\n').slice(0, -1) };
}

test(
  'one of two kits is killed under load: everything is handled once, and in order',
  { timeout: 120_000 },
  async () => {
    const { kits, db, lines } = await twoKits();
    const [doomed, other] = kits;
    const sessions = Array.from({ length: SESSIONS }, () => crypto.randomUUID());

    /** As the service does, which tries again if it gets no answer: here, at the other kit. */
    async function send(session_id: string, n: number): Promise<void> {
      const event = { id: crypto.randomUUID(), cursor: String(n), type: 'Thing', data: { session_id } };
      const kit = kits[n % 2] ?? other;
      const status = await deliver(kit.url, event).catch(() => 0);
      expect(status === 204 || (await deliver(other.url, event)) === 204).toBe(true);
    }
    const sending = sessions.map(async (session, s) => {
      for (let n = 0; n < EACH; n++) await send(session, n * SESSIONS + s + 1);
    });
    await until('some to be handled', () => lines().length > SESSIONS * 5);
    await doomed.kill();
    await Promise.all(sending);
    const open = 'select waiting as n from handlers';
    await until('all to be handled', async () => (await db.get<{ n: number }>(open))?.n === 0, 60_000);
    expect(await db.all('select waiting, done, dead from handlers')).toEqual([
      { waiting: 0, done: SESSIONS * EACH, dead: 0 },
    ]);
    for (const session of sessions) {
      const cursors = lines().flatMap((line) => (line.startsWith(session) ? Number(line.split(' ')[1]) : []));
      // The chain that was running as the kit was killed ran again.
      const first = [...new Set(cursors)];
      expect(first).toEqual(first.toSorted((a, b) => a - b));
      expect([first.length, cursors.length - first.length <= CHAIN]).toEqual([EACH, true]);
    }
    // The other one does what only one may do.
    expect((await other.status()).events).toBe(SESSIONS * EACH);
  },
);
