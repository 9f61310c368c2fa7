// Alarms are posted to a real server: once, again each day, and when they are over; one that is refused holds up no other.
import { tell } from '../../src/operations/store/open.ts';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../src/base/log.ts';
import { createAlarms } from '../../src/keep/alarms.ts';
import { report } from '../operations/fixture.ts';
import { createWorld } from '../store/fixture.ts';

const DAY = 86_400_000;

async function start() {
  const posts: string[] = [];
  const refuses = new Set<string>();
  const server = createServer((request, response) => {
    const answer = (body: unknown): void => {
      const { alarm, state } = body as { alarm: string; state: string };
      if (!refuses.has(alarm)) posts.push(`${alarm} ${state}`);
      response.writeHead(refuses.has(alarm) ? 400 : 200).end();
    };
    json(request).then(answer, () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const ALERT_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const world = await createWorld([]).begin();
  const config = { storePath: world.file, RETENTION_DAYS: 30, ALERT_URL };
  const look = createAlarms({ db: world.people, config, log: createLog('keep', 'silent') });
  /** What was posted by this look. */
  async function posted(): Promise<string[]> {
    await look();
    return posts.splice(0).toSorted();
  }
  return { world, refuses, posted };
}

test('an alarm is posted when it is raised, each day while it stands, and when it is over', async () => {
  const { world, posted } = await start();
  await report(world, { state: 'stopped', reason: 'API_KEY is refused' });
  expect([await posted(), await posted()]).toEqual([['replay_stopped raised'], []]);
  world.now += DAY + 1;
  await report(world, { state: 'stopped' });
  expect([await posted(), await posted()]).toEqual([['replay_stopped raised'], []]);
  await report(world);
  expect([await posted(), await posted()]).toEqual([['replay_stopped over'], []]);
});

test('an alarm that is refused holds up no other, and is tried again', async () => {
  const { world, refuses, posted } = await start();
  refuses.add('replay_stopped');
  await report(world, { state: 'stopped' });
  await tell(world.people, 'failures_in_a_row', 5);
  expect([await posted(), await posted()]).toEqual([['deliveries_refused raised'], []]);
  refuses.clear();
  expect(await posted()).toEqual([]);
  world.now += 61_000;
  await report(world, { state: 'stopped' });
  expect(await posted()).toEqual(['replay_stopped raised']);
});

test('an alarm that becomes worse is posted again', async () => {
  const { world, posted } = await start();
  await report(world);
  await tell(world.people, 'failures_in_a_row', 5);
  expect(await posted()).toEqual(['deliveries_refused raised']);
  await tell(world.people, 'failures_in_a_row', 12);
  expect([await posted(), await posted()]).toEqual([['deliveries_refused raised'], []]);
});
