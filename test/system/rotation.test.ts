// A secret is rotated under load: the new secret is added, used, and the old one removed, without a refusal.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { Signer } from '../../src/store/keep.ts';
import { createKit, load, RECORD, SECRET, until, type Kit } from './kit.ts';

const NEW = 'whsec_of_the_time_after_the_rotation';

let kit: Kit | undefined;
afterEach(() => kit?.remove());

/** The configured secrets in their order, as the store records them. */
function secretsOf(running: Kit): Signer[] {
  const [row] = running.query<{ value: string }>("select value from state where name = 'signers'");
  const signers = JSON.parse(row?.value ?? '[]') as Signer[];
  return signers.filter(({ number }) => number !== null).toSorted((a, b) => (a.number ?? 0) - (b.number ?? 0));
}

test('a rotation with grace and two SIGHUPs, at 200 deliveries a second: every answer is 204, and the counts of each secret survive a restart', async () => {
  const running = (kit = await createKit({ record: RECORD }, { WEBHOOK_SECRET: '', WEBHOOK_SECRET_FILE: 'secret' }));
  const write = (...secrets: string[]): void => writeFileSync(join(running.folder, 'secret'), secrets.join(','));
  const reread = async (...secrets: string[]): Promise<void> => {
    write(...secrets);
    running.signal('SIGHUP');
    await until(() => secretsOf(running).length === secrets.length);
  };
  write(SECRET);
  await running.start();

  let signing = [SECRET];
  const sending = load(running, 200, 0, () => signing);
  await until(() => (secretsOf(running)[0]?.hits ?? 0) > 100);
  signing = [NEW, SECRET];
  await reread(NEW, SECRET);
  await until(() => secretsOf(running)[1]?.mayGo === true);
  expect(secretsOf(running)[0]).toMatchObject({ number: 1, mayGo: false });
  signing = [NEW];
  const grace = sending.acknowledged.size;
  await until(() => sending.acknowledged.size > grace + 200);
  await reread(NEW);
  const alone = sending.acknowledged.size;
  await until(() => sending.acknowledged.size > alone + 200);
  const sent = await sending.stop();

  expect([...sending.statuses]).toEqual([[204, sent]]);
  const before = secretsOf(running);
  expect(await running.stop()).toBe(0);
  const [kept] = secretsOf(running);
  expect(kept?.hits).toBeGreaterThanOrEqual(before[0]?.hits ?? 0);
  const [row] = running.query<{ value: string }>("select value from state where name = 'signers'");
  const [old] = (JSON.parse(row?.value ?? '[]') as Signer[]).filter(({ number }) => number === null);
  // During the grace both secrets signed every delivery, so their hits together exceed the number of deliveries.
  expect((old?.hits ?? 0) + (kept?.hits ?? 0)).toBeGreaterThan(sent);
  expect(old).toMatchObject({ mayGo: true });
  await running.start();
  await until(() => secretsOf(running).length === 1);
  expect(secretsOf(running)).toEqual([kept]);
  await until(() => running.query<{ n: number }>('select count(*) as n from seen')[0]?.n === sent);
  expect(running.output()).not.toContain('whsec_');
});
