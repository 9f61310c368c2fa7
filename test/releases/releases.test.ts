// Stores that releases have made, each in a folder with the release's number: every later kit serves them.
import { copyFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { deliver, startKit, until } from '../harness.ts';
import { createFolder } from '../store/fixture.ts';

const HANDLERS = {
  'done.ts': `export default { on: '*', handle() {} };`,
  'dead.ts': `import { Dead } from '#kit';
    export default { on: '*', handle() { throw new Dead('as the test wants'); } };`,
  'waits.ts': `import { appendFileSync } from 'node:fs';
    export default { on: '*', order: 'arrival', handle({ cursor }) {
      appendFileSync(process.env.FOLDER + '/lines', cursor + '\\n');
    } };`,
};
const ids = [1, 2, 3, 4, 5];
const eventOf = (n: number) => ({ id: `e${n}`, cursor: String(n), type: 'Thing', data: { session_id: 's' } });
const releases = readdirSync(import.meta.dirname, { withFileTypes: true }).filter((one) => one.isDirectory());

test.each(releases.map(({ name }) => name))(
  'the store of %s, with waiting tasks and dead letters, is served on',
  async (name) => {
    const folder = createFolder();
    copyFileSync(join(import.meta.dirname, name, 'events.db'), join(folder, 'events.db'));
    const kit = await startKit({ folder, handlers: HANDLERS, env: { FOLDER: folder } });
    for (const n of ids) expect(await deliver(kit.url, eventOf(n))).toBe(204);
    const body = JSON.stringify({ handler: 'waits' });
    const ask = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    await until(
      'it to be resumed',
      async () => (await fetch(`${kit.opsUrl}/api/resume`, ask).catch(() => null))?.ok === true,
    );
    expect(await deliver(kit.url, eventOf(6))).toBe(204);
    const tasks = async (): Promise<unknown> => (await kit.status()).tasks;
    const all = { waiting: 0, running: 0, done: 12, skipped: 0, dead: 6 };
    await until('all to be handled', async () => JSON.stringify(await tasks()) === JSON.stringify(all));
    expect([kit.lines(), (await kit.status()).events]).toEqual([[...ids, 6].map(String), 6]);
    await kit.stop();
  },
);
