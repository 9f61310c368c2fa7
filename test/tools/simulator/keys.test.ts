import { expect, test } from 'vitest';
import type { KeyAttributes } from '../../../src/tools/simulator/keys.ts';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';

const { keys, webhooks, history } = createSimulatedService({
  seed: 1,
  addresses: { resolve: () => Promise.resolve(['203.0.113.5']) },
});
const [one = ''] = history.numbers;
const base: KeyAttributes = { name: 'tests', scopes: ['events:read'], validDays: null };
const refused = (status: number, reason: string) => expect.objectContaining({ status, reason });

test.each<[Partial<KeyAttributes>, string]>([
  [{ name: ' ' }, 'API_KEY_INPUT_INVALID'],
  [{ scopes: [] }, 'API_KEY_INPUT_INVALID'],
  [{ scopes: ['events:write'] }, 'API_KEY_INPUT_INVALID'],
  [{ validDays: 0 }, 'API_KEY_EXPIRY_INVALID'],
  [{ validDays: 1_097 }, 'API_KEY_EXPIRY_INVALID'],
  [{ numbers: [] }, 'API_KEY_EMPTY_DEVICES'],
  [{ numbers: ['unknown'] }, 'API_KEY_DEVICES_INVALID'],
  [{ numbers: [one], scopes: ['dashboard:read'] }, 'API_KEY_RESTRICTED_SCOPE_INVALID'],
  [{ numbers: [one], scopes: ['product:media'] }, 'API_KEY_RESTRICTED_SCOPE_INVALID'],
  [{ ips: ['10.0.0.0/33'] }, 'API_KEY_IPS_INVALID'],
  [{ ips: ['here'] }, 'API_KEY_IPS_INVALID'],
  [{ ips: Array(51).fill('10.0.0.1') }, 'API_KEY_IPS_INVALID'],
  [{ creates: 1 }, 'API_KEY_CREATION_SCOPE_REQUIRED'],
  [{ creates: 0, scopes: ['sessions:manage'] }, 'API_KEY_CREATION_QUOTA_REQUIRED'],
  [{ perMinute: 0 }, 'API_KEY_RATE_INVALID'],
  [{ perMinute: 121 }, 'API_KEY_RATE_INVALID'],
])('2.15, 5, 7.4: a key with %j is refused as %s', (attributes, reason) => {
  expect(() => keys.create({ ...base, ...attributes })).toThrow(refused(400, reason));
});

test('5.3: every scope of the contract can be granted', () => {
  const scopes =
    'sessions:read sessions:manage messages:send messages:revoke messages:view_once events:read dashboard:read groups:read groups:manage product:inbox product:contacts product:campaigns product:templates product:media product:flows product:warmup product:ai';
  expect(keys.create({ ...base, scopes: scopes.split(' ') }).key.attributes.scopes).toHaveLength(17);
});

test.each([1, 30, 90, 365, 3 * 365, null])('5.7: a key can be valid for %j days', (validDays) => {
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

test('5.4: product:inbox can be restricted to numbers', () => {
  const { secret } = keys.create({ ...base, scopes: ['product:inbox'], numbers: [one] });
  expect(secret).toMatch(/^svc_test_/);
});

test('5.7, 7.4: the old secret stops at once, after 1 hour or after 24 hours', () => {
  const { key } = keys.create(base);
  for (const hours of [0, 1, 24] as const) expect(keys.rotate(key, hours)).toMatch(/^svc_test_/);
  expect(() => keys.rotate(key, 2 as 1)).toThrow(refused(400, 'API_KEY_ROTATION_INVALID'));
});

test('3.1: a revoked key stays revoked', () => {
  const { key } = keys.create(base);
  keys.revoke(key);
  expect(() => keys.edit(key, { name: 'again' })).toThrow(refused(400, 'API_KEY_UPDATE_INVALID'));
  expect(() => keys.rotate(key, 0)).toThrow(refused(401, 'API_AUTH_REVOKED'));
});

const url = 'https://hooks.example/in';

test('2.16: a secret begins with whsec_, and a key has at most 5 webhooks, each with another address', async () => {
  const { key } = keys.create(base);
  const { secret, webhook } = await webhooks.register(key, { url });
  expect(secret).toMatch(/^whsec_\w{32}$/);
  await expect(webhooks.register(key, { url })).rejects.toEqual(refused(409, 'WEBHOOK_DUPLICATE'));
  for (let i = 2; i <= 5; i++) await webhooks.register(key, { url: `${url}/${i}` });
  await expect(webhooks.register(key, { url: `${url}/6` })).rejects.toEqual(refused(409, 'WEBHOOK_LIMIT_REACHED'));
  webhooks.remove(webhook.id);
  expect(() => webhooks.remove(webhook.id)).toThrow(refused(404, 'WEBHOOK_NOT_FOUND'));
  await webhooks.register(key, { url });
});

test.each([[[]], [['Unheard']], [['webhook.ping']]])('2.16: the event types %j are refused', async (events) => {
  const { key } = keys.create(base);
  await expect(webhooks.register(key, { url, events })).rejects.toEqual(refused(400, 'WEBHOOK_EVENTS_INVALID'));
});

test('6.3: a webhook gets only event types that its key may read', async () => {
  const { key: blind } = keys.create({ ...base, scopes: ['groups:read'] });
  const registering = webhooks.register(blind, { url });
  await expect(registering).rejects.toEqual(refused(403, 'WEBHOOK_KEY_CANNOT_READ_EVENTS'));
  const { key } = keys.create({ ...base, numbers: [one] });
  const wide = webhooks.register(key, { url, events: ['CampaignUpdated'] });
  await expect(wide).rejects.toEqual(refused(403, 'WEBHOOK_EVENTS_FORBIDDEN'));
  expect((await webhooks.register(key, { url })).webhook.events).not.toContain('CampaignUpdated');
});
