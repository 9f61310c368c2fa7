// What the contract says to a person who sets the kit up, as `npx kit doctor` checks it (2.16, 4.2, 5.1, 6.3).
import { expect } from 'vitest';
import { address } from '../../src/cli/doctor/address.ts';
import { examine, type Check, type Finding } from '../../src/cli/doctor/check.ts';
import { clocks, key } from '../../src/cli/doctor/service.ts';
import type { Env } from '../../src/config.ts';
import { createClock } from '../store-file.ts';
import { holds } from './holds.ts';
import { API_KEY, ok, startService } from './scripted.ts';

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
