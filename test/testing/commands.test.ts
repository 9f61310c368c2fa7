// `kit new` and `kit trigger`, as operations.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { loadConfig } from '../../src/config.ts';
import { checked, type Operation, type OperationContext } from '../../src/operations/define.ts';
import { create } from '../../src/tools/commands/new.ts';
import { trigger } from '../../src/tools/commands/trigger.ts';
import { SECRET, startReceiver } from '../receive/fixture.ts';

async function run(operation: Operation, args: object, env: Record<string, string> = {}, clock = systemClock) {
  const config = () => loadConfig({ WEBHOOK_SECRET: SECRET, ...env });
  const context = { config, clock } as OperationContext;
  const result = await operation.run(context, checked(operation, { ...args }));
  return { result, fails: operation.fails?.(result) };
}

function inFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kit-new-'));
  vi.spyOn(process, 'cwd').mockReturnValue(folder);
  onTestFinished(() => {
    vi.restoreAllMocks();
    rmSync(folder, { recursive: true });
  });
  return folder;
}

test('each template becomes a handler and a test that imports it, once', async () => {
  const folder = inFolder();
  const { result } = await run(create, {});
  const list = result as { template: string; what: string }[];
  expect(list.map(({ template }) => template)).toContain('auto-reply');
  for (const { template, what } of list) {
    expect(what).toMatch(/^[A-Z].*\.$/);
    const name = `my-${template}`;
    await run(create, { template, name });
    expect(readFileSync(join(folder, 'src/handlers', `${name}.ts`), 'utf8')).toContain(`from '#kit'`);
    const source = readFileSync(join(folder, 'test/handlers', `${name}.test.ts`), 'utf8');
    expect(source).toContain(`from '../../src/handlers/${name}.ts'`);
    await expect(run(create, { template, name })).rejects.toThrow('exists already');
  }
});

test.each([
  [{ template: 'auto-repli', name: 'mine' }, /no template auto-repli: there are handler, auto-reply/],
  [{ template: 'notify' }, /the name must be 1 to 100/],
  [{ template: 'notify', name: '../mine' }, /must be 1 to 100 letters/],
])('%j is refused', async (args, words) => {
  inFolder();
  await expect(run(create, args)).rejects.toThrow(words);
});

test('an event is sent as the service sends it, without a cursor unless one is named', async () => {
  const { port, accepted, time } = await startReceiver();
  const send = (args: object) =>
    run(trigger, { type: 'MessageReceived', ...args }, { PORT: String(port) }, { ...systemClock, now: () => time.now });
  const { result, fails } = await send({ data: '{"from":"15550199"}', set: ['body=7', 'is_group=true'] });
  const [reading] = accepted as { event: { id: string; cursor: string | null; body: Buffer } }[];
  expect([result, fails, reading?.event.cursor]).toEqual([
    {
      deliveries: [expect.objectContaining({ answer: '204' })],
      words: expect.stringContaining(`i:${reading?.event.id}`),
    },
    false,
    null,
  ]);
  const { data } = JSON.parse(String(reading?.event.body)) as { data: object };
  expect(data).toMatchObject({ MessageReceived: { from: '15550199', body: '7', is_group: true } });
  await send({ cursor: '42', times: '2' });
  expect(accepted.slice(1)).toMatchObject([{ event: { cursor: '42' } }, { event: { cursor: '42' } }]);
});

test.each([
  ['signed with another secret', { badSignature: true }, '/webhooks', '401', false],
  ['signed too long ago', { old: '400' }, '/webhooks', '401', false],
  ['sent to another path', {}, '/other', '404', true],
])('what is %s is told, and fails if it is not expected', async (_, args, path, answer, fails) => {
  const { port, accepted, time } = await startReceiver();
  const env = { PORT: String(port), WEBHOOK_PATH: path };
  const sent = await run(trigger, { type: 'MessageReceived', ...args }, env, { ...systemClock, now: () => time.now });
  expect(sent).toMatchObject({ result: { deliveries: [{ answer }] }, fails });
  expect(accepted).toEqual([]);
});

test.each([
  [{ type: 'MessageReceived', set: 'bdoy=hi' }, /no field bdoy: it has session_id, .*body/],
  [{ type: 'kit.gap' }, /must be a type of the service/],
  [{ type: 'MessageReceived', data: '[1]' }, /must be an object in JSON/],
])('%j is refused before anything is sent', async (args, words) => {
  await expect(run(trigger, args)).rejects.toThrow(words);
});
