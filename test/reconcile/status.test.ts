// The list of the last reconciliation runs, for a person who looks an hour later.
import { afterEach, expect, test } from 'vitest';
import { failure, item } from './replay-server.ts';
import { createRig, INTERVAL_MS, type Rig } from './harness.ts';

let rig: Rig;
afterEach(() => rig.close());

const runs = async () =>
  (await rig.store.state.get('replay_runs')).map(
    ({ state, runs: n, recovered }) => `${n} × ${state}, ${recovered} recovered`,
  );

async function afterOne(): Promise<void> {
  rig = await createRig();
  rig.server.publish(item(1), item(2), item(3));
  await rig.webhook(1);
  await rig.settle();
}

test('a run is listed with its recovered events; quiet runs after it share a row, also over a restart', async () => {
  await afterOne();
  expect(await runs()).toEqual(['1 × idle, 2 recovered']);
  await rig.pass(3 * INTERVAL_MS);
  rig.restart();
  await rig.pass(3 * INTERVAL_MS);
  const [quiet, ...rest] = await runs();
  expect(Number(/^\d+ × idle, 0/.exec(quiet ?? '')?.[0].split(' ')[0])).toBeGreaterThanOrEqual(5);
  expect(rest).toEqual(['1 × idle, 2 recovered']);
});

test('a refusal is listed as one run, with its reason', async () => {
  await afterOne();
  rig.server.lieAlways(failure(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'));
  await rig.pass(10 * INTERVAL_MS);
  expect((await runs())[0]).toBe('1 × stopped, 0 recovered');
  expect((await rig.store.state.get('replay_runs'))[0]?.reason).toContain('401');
});
