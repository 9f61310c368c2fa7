import { expect, test } from 'vitest';
import { createAddressRules, type AddressOptions } from '../../../src/tools/simulator/address.ts';

const check = (url: string, options: AddressOptions = {}) =>
  createAddressRules({ resolve: () => Promise.resolve(['203.0.113.5']), ...options })
    .check(url)
    .then(({ address }) => address)
    .catch(({ reason, message }: { reason: string; message: string }) => `${reason}: ${message}`);

test.each(['https://hooks.example/in', 'https://hooks.example:443/', 'https://hooks.example:8443/in?x=1'])(
  '6.3: the simulator accepts a webhook at %s',
  async (url) => expect(await check(url)).toBe('203.0.113.5'),
);

test.each([
  ['no address', 'WEBHOOK_URL_INVALID'],
  ['ftp://hooks.example/', 'WEBHOOK_URL_INSECURE'],
  ['https://user@hooks.example/', 'WEBHOOK_URL_INVALID'],
  ['https://:password@hooks.example/', 'WEBHOOK_URL_INVALID'],
  ['http://hooks.example/', 'WEBHOOK_URL_INSECURE'],
  ['https://hooks.example:3000/', 'WEBHOOK_URL_PORT'],
  ['https://hooks.example:80/', 'WEBHOOK_URL_PORT'],
])('6.3, 7.4: the simulator refuses a webhook at %s with %s', async (url, reason) =>
  expect(await check(url)).toContain(reason),
);

test.each([
  ['127.0.0.1', 'loopback'],
  ['[::1]', 'loopback'],
  ['[::ffff:127.0.0.1]', 'loopback'],
  ['2130706433', 'loopback'],
  ['10.1.2.3', 'private-network'],
  ['172.31.255.255', 'private-network'],
  ['192.168.0.1', 'private-network'],
  ['[fd12::1]', 'private-network'],
  ['169.254.1.1', 'link-local'],
  ['[fe80::1]', 'link-local'],
  ['100.64.0.1', 'carrier-grade NAT'],
  ['100.127.255.255', 'carrier-grade NAT'],
  ['169.254.169.254', 'cloud-metadata'],
  ['[fd00:ec2::254]', 'cloud-metadata'],
  ['0.0.0.0', 'local'],
  ['[64:ff9b::a00:1]', 'translated'],
])('6.3, 7.4: the simulator refuses %s as a %s address: WEBHOOK_URL_PRIVATE', async (host, kind) => {
  const answer = await check(`https://${host}/`);
  expect(answer).toContain('WEBHOOK_URL_PRIVATE');
  expect(answer).toContain(`is a ${kind} address`);
});

test.each(['172.32.0.1', '100.128.0.1', '11.0.0.1', '[2606:4700::1]'])(
  '6.3: the simulator accepts %s as a public address',
  async (host) => {
    expect(await check(`https://${host}/`)).toBe(host.replace(/[[\]]/g, ''));
  },
);

test('6.3: the simulator refuses a webhook at a name if one of its addresses is not public', async () => {
  const resolve = () => Promise.resolve(['203.0.113.5', '10.0.0.7']);
  expect(await check('https://hooks.example/', { resolve })).toContain('hooks.example is 10.0.0.7, which is a private');
});

test('7.4: the simulator refuses a name without an address: WEBHOOK_URL_UNRESOLVED', async () => {
  const resolve = () => Promise.reject(new Error('ENOTFOUND'));
  expect(await check('https://hooks.example/', { resolve })).toContain('WEBHOOK_URL_UNRESOLVED');
});

test('a rehearsal allows http and any port only for loopback addresses', async () => {
  const resolve = (name: string) => Promise.resolve([name === 'localhost' ? '127.0.0.1' : '10.0.0.7']);
  const rehearse = (url: string) => check(url, { loopback: true, resolve });
  expect(await rehearse('http://localhost:3000/webhooks')).toBe('127.0.0.1');
  expect(await rehearse('http://[::1]:3000/')).toBe('::1');
  expect(await rehearse('http://hooks.example/')).toContain('WEBHOOK_URL_INSECURE');
  expect(await rehearse('https://hooks.example:3000/')).toContain('WEBHOOK_URL_PORT');
  expect(await rehearse('https://hooks.example/')).toContain('WEBHOOK_URL_PRIVATE');
});
