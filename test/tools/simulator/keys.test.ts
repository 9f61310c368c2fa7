import { expect, test } from 'vitest';
import type { Key, KeyAttributes } from '../../../src/tools/simulator/keys.ts';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';

const { keys, webhooks, history } = createSimulatedService({
  seed: 1,
  addresses: { resolve: () => Promise.resolve(['203.0.113.5']) },
});
const [one = ''] = history.numbers;
const base: KeyAttributes = { name: 'tests', scopes: ['events:read'], validDays: null };
const refused = (status: number, reason: string) => expect.objectContaining({ status, reason });

test.each<[what: string, reason: string, attributes: Partial<KeyAttributes>]>([
  ['a blank name', 'API_KEY_INPUT_INVALID', { name: ' ' }],
  ['no scope', 'API_KEY_INPUT_INVALID', { scopes: [] }],
  ['an unknown scope', 'API_KEY_INPUT_INVALID', { scopes: ['events:write'] }],
  ['no validity', 'API_KEY_INPUT_INVALID', { validDays: undefined as never }],
  ['a validity of 0 days', 'API_KEY_EXPIRY_INVALID', { validDays: 0 }],
  ['a validity of 1097 days', 'API_KEY_EXPIRY_INVALID', { validDays: 1_097 }],
  ['an empty list of numbers', 'API_KEY_EMPTY_DEVICES', { numbers: [] }],
  ['an unknown number', 'API_KEY_DEVICES_INVALID', { numbers: ['unknown'] }],
  ['a number and dashboard:read', 'API_KEY_RESTRICTED_SCOPE_INVALID', { numbers: [one], scopes: ['dashboard:read'] }],
  ['a number and product:media', 'API_KEY_RESTRICTED_SCOPE_INVALID', { numbers: [one], scopes: ['product:media'] }],
  ['the IP range 10.0.0.0/33', 'API_KEY_IPS_INVALID', { ips: ['10.0.0.0/33'] }],
  ['an IP address that is a word', 'API_KEY_IPS_INVALID', { ips: ['here'] }],
  ['51 IP addresses', 'API_KEY_IPS_INVALID', { ips: Array(51).fill('10.0.0.1') }],
  ['a quota without sessions:manage', 'API_KEY_CREATION_SCOPE_REQUIRED', { creates: 1 }],
  ['a quota of 0 numbers to create', 'API_KEY_CREATION_QUOTA_REQUIRED', { creates: 0, scopes: ['sessions:manage'] }],
  ['0 requests a minute', 'API_KEY_RATE_INVALID', { perMinute: 0 }],
  ['121 requests a minute', 'API_KEY_RATE_INVALID', { perMinute: 121 }],
])('2.15, 5, 7.4: the simulator refuses an API key with %s: %s', (_, reason, attributes) => {
  expect(() => keys.create({ ...base, ...attributes })).toThrow(refused(400, reason));
});

test('5.3: an API key can have every scope of the contract', () => {
  const scopes =
    'sessions:read sessions:manage messages:send messages:revoke messages:view_once events:read dashboard:read groups:read groups:manage product:inbox product:contacts product:campaigns product:templates product:media product:flows product:warmup product:ai';
  expect(keys.create({ ...base, scopes: scopes.split(' ') }).key.attributes.scopes).toHaveLength(17);
});

test.each([
  ['1 day', 1],
  ['30 days', 30],
  ['90 days', 90],
  ['1 year', 365],
  ['3 years', 3 * 365],
  ['ever', null],
])('5.7: an API key can be valid for %s', (_, validDays) => {
  expect(keys.create({ ...base, validDays, ips: Array<string>(50).fill('10.0.0.0/8'), perMinute: 120 })).toBeDefined();
});

test.each([
  'dashboard:read',
  'product:contacts',
  'product:campaigns',
  'product:templates',
  'product:media',
  'product:flows',
  'product:warmup',
  'product:ai',
])('5.4: the account-wide scope %s cannot be combined with restricted numbers', (scope) => {
  const { key } = keys.create({ ...base, scopes: [scope] });
  expect(() => keys.edit(key, { numbers: [one] })).toThrow(refused(400, 'API_KEY_RESTRICTED_SCOPE_INVALID'));
});

test('5.4: an API key with the scope product:inbox can be restricted to numbers', () => {
  const { secret } = keys.create({ ...base, scopes: ['product:inbox'], numbers: [one] });
  expect(secret).toMatch(/^svc_test_/);
});

test('5.7: the old secret of an API key can stop at once, after 1 hour or after 24 hours', () => {
  const { key } = keys.create(base);
  for (const hours of [0, 1, 24] as const) expect(keys.rotate(key, hours)).toMatch(/^svc_test_/);
});

test('3.1: a revoked API key cannot be rotated: API_AUTH_REVOKED', () => {
  const { key } = keys.create(base);
  keys.revoke(key);
  expect(() => keys.rotate(key, 0)).toThrow(refused(401, 'API_AUTH_REVOKED'));
});

const url = 'https://hooks.example/in';

function create(attributes: Partial<KeyAttributes> = {}): Key {
  return keys.create({ ...base, ...attributes }).key;
}

/** A key that has this many webhooks. */
async function withWebhooks(count: number): Promise<Key> {
  const key = create();
  for (let i = 1; i <= count; i++) await webhooks.register(key, { url: `${url}/${i}` });
  return key;
}

function revoked(): Key {
  const key = create();
  keys.revoke(key);
  return key;
}

test.each<[what: string, status: number, reason: string, act: () => unknown]>([
  ['to edit an unknown API key', 400, 'API_KEY_INVALID', () => keys.edit({ ...create(), id: 'unknown' }, {})],
  ['to edit a revoked API key', 400, 'API_KEY_UPDATE_INVALID', () => keys.edit(revoked(), { name: 'again' })],
  ['to keep an old secret for 2 hours', 400, 'API_KEY_ROTATION_INVALID', () => keys.rotate(create(), 2 as 1)],
  [
    'a webhook for no event type',
    400,
    'WEBHOOK_EVENTS_INVALID',
    () => webhooks.register(create(), { url, events: [] }),
  ],
  [
    'a webhook for an unknown event type',
    400,
    'WEBHOOK_EVENTS_INVALID',
    () => webhooks.register(create(), { url, events: ['Unheard'] }),
  ],
  [
    'a webhook for webhook.ping',
    400,
    'WEBHOOK_EVENTS_INVALID',
    () => webhooks.register(create(), { url, events: ['webhook.ping'] }),
  ],
  [
    'a webhook without events:read',
    403,
    'WEBHOOK_KEY_CANNOT_READ_EVENTS',
    () => webhooks.register(create({ scopes: ['groups:read'] }), { url }),
  ],
  [
    'account-wide events to a restricted API key',
    403,
    'WEBHOOK_EVENTS_FORBIDDEN',
    () => webhooks.register(create({ numbers: [one] }), { url, events: ['CampaignUpdated'] }),
  ],
  [
    'a second webhook for one address',
    409,
    'WEBHOOK_DUPLICATE',
    async () => webhooks.register(await withWebhooks(1), { url: `${url}/1` }),
  ],
  [
    'a sixth webhook of an API key',
    409,
    'WEBHOOK_LIMIT_REACHED',
    async () => webhooks.register(await withWebhooks(5), { url }),
  ],
  ['to remove an unknown webhook', 404, 'WEBHOOK_NOT_FOUND', () => webhooks.remove('unknown')],
])('7.4: the simulator refuses %s: %i %s', async (_, status, reason, act) => {
  await expect(Promise.try(act)).rejects.toEqual(refused(status, reason));
});

test('2.16: the secret of a webhook begins with whsec_', async () => {
  expect((await webhooks.register(create(), { url })).secret).toMatch(/^whsec_\w{32}$/);
});

test('2.16: a webhook that is removed makes room for another, also at the same address', async () => {
  const key = await withWebhooks(4);
  const { webhook } = await webhooks.register(key, { url });
  webhooks.remove(webhook.id);
  expect((await webhooks.register(key, { url })).webhook.url).toBe(url);
});

test('6.3: a webhook of an API key restricted to numbers gets no account-wide events by default', async () => {
  const { webhook } = await webhooks.register(create({ numbers: [one] }), { url });
  expect(webhook.events).toContain('MessageReceived');
  expect(webhook.events).not.toContain('CampaignUpdated');
});

test('2.16: the limits of webhooks count by API key: another key can have the same address', async () => {
  await withWebhooks(5);
  const other = await withWebhooks(4);
  expect((await webhooks.register(other, { url })).webhook.url).toBe(url);
});

test('2.16, 5.1: the secrets of an API key and of a webhook are shown once', async () => {
  const { key, secret } = keys.create(base);
  const { webhook, secret: signing } = await webhooks.register(key, { url });
  const later = JSON.stringify([key, webhook, webhooks.all(), webhook.log()]);
  expect(later).toContain(url);
  expect(later).not.toContain(secret);
  expect(later).not.toContain(signing);
});
