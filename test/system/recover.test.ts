// `reconcile --from` lowers the watermark, and `reconcile --forget` drops it. The test runs a kit beside the simulator.
import { execFile } from 'node:child_process';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { createKit, SECRET, type Kit } from './kit.ts';
import { newKit } from './new-kit.ts';

const until = (holds: () => unknown) => vi.waitUntil(holds, { timeout: 30_000, interval: 50 });

function kitCommand(kit: Kit, env: Record<string, string>, ...args: string[]): Promise<{ code: number; out: string }> {
  const common = { PATH: process.env['PATH'], PORT: String(kit.port), DATABASE_URL: `sqlite:${kit.folder}/events.db` };
  return new Promise((done) => {
    const child = execFile(
      process.execPath,
      [`${process.cwd()}/src/cli/kit.js`, ...args],
      { cwd: kit.folder, env: { ...common, ...env } },
      (_, out, err) => done({ code: child.exitCode ?? -1, out: out + err }),
    );
  });
}

test(
  'reconcile --from reads again from a cursor; --forget works only without a key, and leaves a gap',
  { timeout: 120_000 },
  async () => {
    const service = createSimulatedService({ seed: 7, addresses: { loopback: true } });
    const { key, secret: apiKey } = service.keys.create({ name: 'k', scopes: ['events:read'], validDays: null });
    const env = { API_BASE_URL: await service.listen(), API_KEY: apiKey };
    const reads = { RECONCILE_INTERVAL_SECONDS: '5', RECONCILE_CALLS_PER_MINUTE: '100' };
    const withKey: Record<string, string> = { ...env, ...reads };
    const kit = await createKit({}, withKey);
    onTestFinished(async () => {
      await kit.remove();
      await service.close();
    });
    const run = (...args: string[]) => kitCommand(kit, env, ...args);
    const fact = (name: string) =>
      kit.query<{ value: string | null }>('select cast(value as text) as value from state where name = ?', name)[0]
        ?.value;

    expect((await run('reconcile', '--from', 'abc')).code, 'no cursor').toBe(2);
    expect((await run('reconcile', '--from', '5', '--forget')).code).toBe(2);
    await kit.start();
    const atOnce = run('reconcile', '--from', '5');
    await service.webhooks.register(key, { url: `http://localhost:${kit.port}/webhooks`, secret: SECRET });
    expect(await atOnce, 'the key is set, however early it is asked').toMatchObject({
      code: 1,
      out: expect.stringContaining('no watermark yet'),
    });
    const events = service.happen(6);
    await until(() => fact('watermark') === events.at(-1)?.cursor);
    const [first, second] = events;
    const last = events.at(-1)?.cursor ?? '';

    const lowered = await run('reconcile', '--from', second?.cursor ?? '');
    expect(lowered).toMatchObject({
      code: 0,
      out: expect.stringContaining(`went down from ${last} to ${second?.cursor}`),
    });
    expect(fact('watermark')).toBe(last);
    expect(await run('reconcile', '--from', last)).toMatchObject({
      code: 1,
      out: expect.stringContaining('not below it'),
    });
    expect((await run('reconcile', '--from', first?.cursor ?? '', '--json')).code).toBe(0);

    const gaps = () => kit.query('select * from gaps');
    for (const cursor of ['0', String(BigInt(first?.cursor ?? 0) - 1n)])
      expect(await run('reconcile', '--from', cursor), 'below everything').toMatchObject({
        code: 1,
        out: expect.stringContaining(`knows no event at or below ${cursor}`),
      });
    expect(fact('watermark')).toBe(last);
    expect(await run('verify', '--from', '0'), 'the remedy that it names').toMatchObject({
      code: 1,
      out: expect.stringContaining('the service does not know the cursor that it begins at'),
    });
    for (const cursor of ['007', '-1', '1.5', '9223372036854775808', 'c:'])
      expect((await run('reconcile', `--from=${cursor}`)).code, cursor).toBe(2);
    expect((await run('reconcile', '--from', '9223372036854775807')).out).toContain('not below it');
    let between = BigInt(first?.cursor ?? 0);
    while (events.some(({ cursor }) => cursor === String(between))) between++;
    expect(await run('reconcile', '--from', String(between)), 'no event of the service').toMatchObject({ code: 0 });
    expect(fact('watermark')).toBe(last);
    expect(gaps()).toEqual([]);

    service.history.expireUpTo(second?.cursor ?? '');
    const expired = await run('reconcile', '--from', first?.cursor ?? '');
    expect(expired.out).toContain('1 gap opened: the service no longer has');
    expect(fact('watermark')).toBe(last);
    expect(gaps()).toHaveLength(1);

    expect(await run('reconcile', '--forget')).toMatchObject({
      code: 1,
      out: expect.stringContaining('API_KEY is set'),
    });
    expect(await kitCommand(kit, {}, 'reconcile', '--forget'), 'the kit that runs has it').toMatchObject({
      code: 1,
      out: expect.stringContaining('still has API_KEY'),
    });
    await kit.stop();
    expect(await kitCommand(kit, {}, 'reconcile', '--forget')).toMatchObject({
      code: 0,
      out: expect.stringContaining(last),
    });
    expect(fact('watermark')).toBeNull();
    expect((await kitCommand(kit, {}, 'gaps')).out).toContain('forgotten');
    expect(await kitCommand(kit, {}, 'reconcile', '--forget')).toMatchObject({
      code: 1,
      out: 'there is no watermark to remove\n',
    });

    await kit.start();
    const [next] = service.happen(1);
    await until(() => fact('watermark') === next?.cursor);
    expect(await kit.stop()).toBe(0);
  },
);

test('without a key, reconcile and verify refuse at once, because reconciliation is off', async () => {
  const kit = await newKit();
  await kit.start();
  for (const words of [['reconcile'], ['verify', '--from', '1']])
    expect(await kitCommand(kit, {}, ...words)).toEqual({
      code: 78,
      out: 'reconciliation is off: set API_BASE_URL and API_KEY, then restart the kit\n',
    });
});
