// The environment of `run`: handlers get their own variables, and no secret that only other processes need.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { deliver, makeEvent, SECRET, until } from '../system/kit.ts';
import { newKit } from '../system/new-kit.ts';

const SHOW = `
import { writeFileSync } from 'node:fs';
writeFileSync('environment.json', JSON.stringify(process.env));
export default { on: '*', handle() {} };`;

test('E87: run gets no webhook secret, no ops token and no ALERT_URL, from the environment, .env or files', async () => {
  const kit = await newKit(
    { show: SHOW },
    {
      OPS_TOKEN: 'token-of-the-operators',
      OPS_HOST: '0.0.0.0',
      OPS_GENIE_TOKEN: 'of a handler',
      ALERT_URL_FILE: 'alert-url',
    },
  );
  writeFileSync(join(kit.folder, '.env'), 'OPS_READ_TOKEN=token-of-the-readers\nHANDLER_OWN=1\n', { mode: 0o600 });
  writeFileSync(join(kit.folder, 'alert-url'), 'https://alerts.example/secret\n', { mode: 0o644 });
  await kit.start();
  expect(await deliver(kit, makeEvent(0))).toBe(204);
  const done = (): number =>
    kit.query<{ n: number }>("select count(*) as n from tasks where state = 'done'")[0]?.n ?? 0;
  await until(() => done() === 1);
  const text = readFileSync(join(kit.folder, 'environment.json'), 'utf8');
  const names = Object.keys(JSON.parse(text) as object);
  expect(names.filter((name) => /^(WEBHOOK_SECRET|OPS_TOKEN|OPS_READ_TOKEN|ALERT_URL)/.test(name))).toEqual([]);
  expect(names).toEqual(expect.arrayContaining(['HANDLER_OWN', 'OPS_GENIE_TOKEN', 'DATABASE_URL', 'PATH']));
  for (const secret of [SECRET, 'token-of', 'alerts.example']) expect(text).not.toContain(secret);
  const warnings = kit
    .output()
    .split('\n')
    .filter((line) => line.includes('chmod o-r'));
  expect(warnings.map((line) => (JSON.parse(line) as { file: string }).file)).toEqual(['alert-url']);
});
