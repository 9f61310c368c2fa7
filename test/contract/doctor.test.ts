// What the contract says to a person who sets the kit up, as `npx kit doctor` checks it (2.16, 4.2, 5.1, 6.3).
import { expect } from 'vitest';
import { address } from '../../src/cli/doctor/address.ts';
import { examine, type Check, type Finding } from '../../src/cli/doctor/check.ts';
import { clocks, key } from '../../src/cli/doctor/service.ts';
import type { Env } from '../../src/config.ts';
import { createClock } from '../store-file.ts';
import { holds } from './holds.ts';
import { API_KEY, ok, refusal, startService, type Answer } from './scripted.ts';

const examined = (check: Check, env: Env): Promise<Finding[]> =>
  Array.fromAsync(examine([check], { env, clock: createClock(), url: undefined }));
const detailOf = async (url: string): Promise<string> =>
  (await examined(address, { PUBLIC_URL: url })).map(({ detail }) => detail).join();

holds(
  '2.16',
  'doctor reports an address that is not https, has another port than 443 or 8443, or names a user',
  async () => {
    expect(await detailOf('http://1.1.1.1/webhooks')).toContain('not https');
    expect(await detailOf('https://1.1.1.1:3000/webhooks')).toContain('port 3000');
    expect(await detailOf('https://a:b@1.1.1.1/webhooks')).toContain('user or a password');
    for (const host of ['1.1.1.1', '1.1.1.1:443', '1.1.1.1:8443'])
      expect(await detailOf(`https://${host}/webhooks`)).toMatch(/leads to 1\.1\.1\.1$/);
  },
);

const PRIVATE = [
  '127.0.0.1',
  '10.0.0.1',
  '192.168.1.1',
  '169.254.0.1',
  '100.64.0.1',
  '169.254.169.254',
  '[::1]',
  '[fd00::1]',
];
holds('6.3', 'doctor reports local, private, loopback, link-local, CGNAT and metadata addresses', async () => {
  for (const host of PRIVATE) expect(await detailOf(`https://${host}/webhooks`), host).toContain('not public');
});

holds('4.2', 'doctor calls GetApiKeyIdentity with an empty request', async () => {
  const { url, calls } = await startService(ok({ scopes: ['events:read'] }));
  expect(await examined(key, { API_BASE_URL: url, API_KEY })).toMatchObject([{ state: 'ok' }]);
  expect(calls).toMatchObject([{ path: '/v1/rpc/GetApiKeyIdentity', body: { request: {} } }]);
});

holds('5.1', 'doctor calls GET {base_url}/ without the API key', async () => {
  const { url, calls } = await startService(ok());
  await examined(clocks, { API_BASE_URL: url, API_KEY });
  expect(calls).toMatchObject([{ method: 'GET', path: '/v1/' }]);
  expect(calls[0]?.headers).not.toHaveProperty('authorization');
});

const REFUSED: [section: string, what: string, answer: Answer, says: RegExp][] = [
  ['5.1', 'that the service refuses', refusal(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'), /API_AUTH_REVOKED.*another/],
  ['5.3', 'without events:read', ok({ scopes: ['groups:read'] }), /not events:read.*scope events:read/],
  ['5.5', 'that does not allow this address', refusal(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN'), /allowed IPs/],
];
for (const [section, what, answer, says] of REFUSED)
  holds(section, `doctor reports an API key ${what}, and says what to do`, async () => {
    const { url } = await startService(answer);
    const [finding] = await examined(key, { API_BASE_URL: url, API_KEY });
    expect(finding?.state).not.toBe('ok');
    expect(`${finding?.detail} ${finding?.remedy}`).toMatch(says);
  });

holds('6.3', 'doctor reports a clock that is 5 minutes from that of the service', async () => {
  const clock = createClock();
  const date = (ms: number): Answer => ({ headers: { date: new Date(clock.now() + ms).toUTCString() }, body: '' });
  const { url } = await startService(date(300_000), date(-300_000), date(0));
  const states = [];
  for (let i = 0; i < 3; i++) states.push((await examined(clocks, { API_BASE_URL: url }))[0]?.state);
  expect(states).toEqual(['fault', 'fault', 'ok']);
});
