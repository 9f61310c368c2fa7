// The probes of the ops port: /livez and /readyz.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { beat, createOps, type Ops } from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

describe('probes', () => {
  test('/livez is 200 as long as the process answers', async () => {
    expect(await ops.get('/livez')).toMatchObject({ status: 200, text: 'alive\n' });
  });

  test('/readyz is 200 while `receive` shows signs of life', async () => {
    await beat(ops, 'receive');
    expect(await ops.get('/readyz')).toMatchObject({ status: 200, text: 'ready\n' });
  });

  test('/readyz is 503 if `receive` never ran, and if it shows no sign of life any more', async () => {
    expect((await ops.get('/readyz')).status).toBe(503);
    await beat(ops, 'receive');
    ops.clock.time += 60_000;
    expect((await ops.get('/readyz')).status).toBe(503);
  });
});
