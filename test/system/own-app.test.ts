// The example in src/handlers/README.md that reads a handler's table from an app of one's own, beside the kit.
import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKit, deliver, load, makeEvent, until, type Kit } from './kit.ts';

const README = readFileSync('src/handlers/README.md', 'utf8');
const exampleOf = (file: string): string =>
  new RegExp(`^\`\`\`ts\\n// ${file}\\n(.*?)^\`\`\``, 'ms').exec(README)?.[1] ?? '';
const OPEN = { readonly: true, timeout: 5_000 };

let kit: Kit;
beforeEach(async () => {
  kit = await createKit({ count: exampleOf('src/handlers/count.ts') });
  symlinkSync(resolve('node_modules'), join(kit.folder, 'node_modules'));
  symlinkSync('.', join(kit.folder, 'data'));
  writeFileSync(join(kit.folder, 'counts.ts'), exampleOf('app/counts.ts'));
  await kit.start();
});
afterEach(() => kit.remove());

/** Runs the app in a process of its own. Resolves to what it prints. */
async function app(): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['counts.ts'], { cwd: kit.folder });
  return stdout;
}

/** The sum of what the handler has counted, as this process, which is another than the kit's, reads it. */
function countIn(db: Database.Database): number {
  return Number(db.prepare('select coalesce(sum(n), 0) from counts').pluck().get());
}

test('the app reads rows while the kit writes them, and every delivery is accepted', async () => {
  const sending = load(kit, 200);
  for (let reads = 0; reads < 5; reads++) {
    const before = sending.acknowledged.size;
    expect(await app()).toMatch(/^\[/);
    await until(() => sending.acknowledged.size > before);
  }
  await sending.stop();
  expect([...sending.statuses.keys()]).toEqual([204]);
  const reader = new Database(join(kit.folder, 'events.db'), OPEN);
  await until(() => countIn(reader) === sending.acknowledged.size);
  reader.close();
  expect(await app()).toMatch(/sender: 'person-\d', n: \d+/);
});

test('an app that keeps the file open reads on over a stop, a kill and a start of the kit', async () => {
  const reader = new Database(join(kit.folder, 'events.db'), OPEN);
  try {
    for (const [n, end] of [() => kit.stop(), () => kit.killAll(), () => kit.stop()].entries()) {
      expect(await deliver(kit, makeEvent(n))).toBe(204);
      await until(() => countIn(reader) === n + 1);
      await end();
      expect(countIn(reader)).toBe(n + 1);
      await kit.start();
      expect(kit.output()).not.toContain('was deleted or emptied');
    }
  } finally {
    reader.close();
  }
});

test('an app that reads while the kit is stopped does not disturb the next start', async () => {
  await deliver(kit, makeEvent(1));
  const reader = new Database(join(kit.folder, 'events.db'), OPEN);
  await until(() => countIn(reader) === 1);
  reader.close();
  await kit.stop();
  expect(await app()).toContain(`n: 1`);
  await kit.start();
  expect(kit.output()).not.toContain('was deleted or emptied');
  expect(await deliver(kit, makeEvent(2))).toBe(204);
});
