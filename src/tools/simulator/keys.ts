// API keys (contract 2.15, 3.1, 5): created, checked, rotated and revoked. Only the hash of a secret is stored.
import { createHash } from 'node:crypto';
import type { BlockList } from 'node:net';
import { isIPv6 } from 'node:net';
import { iso, type Clock } from '../../base/clock.ts';
import { blockListOf } from '../../base/ip-address.ts';
import type { SimulatedEvent } from './history.ts';
import type { Limits } from './limits.ts';
import type { Random } from '../random.ts';
import { Refusal } from './refusal.ts';

export interface KeyAttributes {
  name: string;
  /** Contract 5.3. */
  scopes: string[];
  /** 1 to 1096. Null: the key does not expire. */
  validDays: number | null;
  /** Session ids. Undefined: the key reaches all numbers. */
  numbers?: string[] | undefined;
  /** Addresses and CIDR ranges, at most 50. Undefined: calls from any address are allowed. */
  ips?: string[] | undefined;
  /** How many numbers the key may create. Undefined: none. Needs sessions:manage. */
  creates?: number | undefined;
  /** Requests per minute, 1 to 120. */
  perMinute?: number | undefined;
}

export interface Key {
  readonly id: string;
  readonly attributes: KeyAttributes;
  /** Changes of the key and of its webhooks (contract 3.2). */
  readonly timeline: { at: string; what: string }[];
}

export interface Keys {
  /** The secret is returned only here. Throws Refusal (API_KEY_*). */
  create(attributes: KeyAttributes): { key: Key; secret: string };
  /** Throws Refusal (API_KEY_*). */
  edit(key: Key, changes: Partial<KeyAttributes>): void;
  /** Returns the new secret. The old secret stays valid for `graceHours`. */
  rotate(key: Key, graceHours: 0 | 1 | 24): string;
  /** Takes effect at once and cannot be undone. */
  revoke(key: Key): void;
  /** Expires the key now. An edit can make it valid again. */
  expire(key: Key): void;
  /** Contract 3.1. */
  state(key: Key): 'active' | 'expired' | 'revoked';
  /** The key that the call belongs to. Throws Refusal 401, 403 (IP) or 429 (the key's own limit). */
  authorize(authorization: string | undefined, ip: string): Key;
  /**
   * Throws Refusal 401 if the key has expired or was revoked, 403 if the key has none of these scopes. Scopes joined by
   * `+` are needed together.
   */
  require(key: Key, scopes: string[], reason?: string): void;
  /** Throws Refusal 404 if the number does not exist or the key may not use it (contract 5.4, 7.4). */
  reach(key: Key, sessionId: unknown): void;
  /** Adds a number that the key creates. Throws Refusal 403 if it may create no more (contract 5.4). */
  addNumber(key: Key, sessionId: string): void;
  /** Whether the key's restriction to numbers allows the event (contract 5.4, 6.3). */
  reads(key: Key, event: Pick<SimulatedEvent, 'sessionId'>): boolean;
  note(key: Key, what: string): void;
  /** The secret that was issued last. Empty: none since the start. */
  lastSecret(): string;
  /** All keys, so that `restore` can make them again from the hashes of their secrets. */
  kept(): KeptKey[];
  /** Makes a kept key again. */
  restore(kept: KeptKey): Key;
  /** Calls `listener` after every change to a key. The expiry of a key is not a change. */
  onChange(listener: () => void): void;
}

export interface KeptKey {
  id: string;
  attributes: KeyAttributes;
  /** Unix milliseconds. Null: never. */
  expiresAt: number | null;
  created: number;
  revoked: boolean;
  /** Hashes of its secrets, and when they end. */
  secrets: [hash: string, until: number | null][];
}

interface Kept extends Key {
  attributes: KeyAttributes;
  expiresAt: number;
  created: number;
  revoked: boolean;
  ips: BlockList | undefined;
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const LONGEST_DAYS = 3 * 365 + 1;
const SCOPES = new Set(
  'sessions:read sessions:manage messages:send messages:revoke messages:view_once events:read dashboard:read groups:read groups:manage product:inbox product:contacts product:campaigns product:templates product:media product:flows product:warmup product:ai'.split(
    ' ',
  ),
);

// oxlint-disable-next-line max-lines-per-function -- every method looks up the same keys and secrets
export function createKeys(options: { numbers: string[]; clock: Clock; limits: Limits; random: Random }): Keys {
  const { numbers, clock, limits, random } = options;
  const keys = new Map<string, Kept>();
  /** Map keys are hashes of secrets. A secret is valid until `until`. */
  const secrets = new Map<string, { key: Kept; until: number }>();
  const listeners: (() => void)[] = [];
  let lastSecret = '';

  function issue(key: Kept): string {
    const secret = `svc_test_${random.uuid().replaceAll('-', '')}`;
    secrets.set(hash(secret), { key, until: Infinity });
    lastSecret = secret;
    return secret;
  }

  function keptOf({ id }: Key): Kept {
    const key = keys.get(id);
    if (!key) throw new Refusal(400, 'API_KEY_INVALID');
    return key;
  }

  function change(key: Kept, what: string): void {
    key.timeline.push({ at: iso(clock.now()) ?? '', what });
    for (const listener of listeners) listener();
  }

  function alive(key: Kept): void {
    if (key.revoked) throw new Refusal(401, 'API_AUTH_REVOKED');
    if (clock.now() >= key.expiresAt) throw new Refusal(401, 'API_AUTH_REQUIRED', 'the key has expired');
  }

  const expiryOf = (days: number | null): number => (days === null ? Infinity : clock.now() + days * DAY_MS);

  return {
    create(attributes) {
      const key: Kept = {
        ...checked(attributes, numbers),
        id: random.uuid(),
        expiresAt: expiryOf(attributes.validDays),
        created: 0,
        revoked: false,
        timeline: [],
      };
      keys.set(key.id, key);
      change(key, 'created');
      return { key, secret: issue(key) };
    },
    edit(one, changes) {
      const key = keptOf(one);
      if (key.revoked) throw new Refusal(400, 'API_KEY_UPDATE_INVALID', 'a revoked key stays revoked');
      Object.assign(key, checked({ ...key.attributes, ...changes }, numbers));
      if (changes.validDays !== undefined) key.expiresAt = expiryOf(changes.validDays);
      change(key, 'edited');
    },
    rotate(one, graceHours) {
      if (![0, 1, 24].includes(graceHours)) throw new Refusal(400, 'API_KEY_ROTATION_INVALID', 'now, 1 h or 24 h');
      const key = keptOf(one);
      alive(key);
      const end = clock.now() + graceHours * HOUR_MS;
      for (const secret of secrets.values()) if (secret.key === key) secret.until = Math.min(secret.until, end);
      change(key, 'secret rotated');
      return issue(key);
    },
    revoke(one) {
      const key = keptOf(one);
      key.revoked = true;
      change(key, 'revoked');
    },
    expire: (one) => void (keptOf(one).expiresAt = clock.now()),
    state: (one) => (keptOf(one).revoked ? 'revoked' : clock.now() < keptOf(one).expiresAt ? 'active' : 'expired'),
    authorize(authorization, ip) {
      const secret = /^Bearer (\S+)$/i.exec(authorization ?? '')?.[1];
      const known = secrets.get(hash(secret ?? ''));
      if (!known) throw new Refusal(401, 'API_AUTH_REQUIRED');
      const { key, until } = known;
      alive(key);
      if (clock.now() >= until) throw new Refusal(401, 'API_AUTH_REVOKED', 'the grace of the old secret has ended');
      if (key.ips && !key.ips.check(ip, isIPv6(ip) ? 'ipv6' : 'ipv4')) throw new Refusal(403, 'API_KEY_IP_FORBIDDEN');
      const { perMinute } = key.attributes;
      if (perMinute !== undefined && !limits.take(`key ${key.id}`, perMinute))
        throw new Refusal(429, 'API_KEY_RATE_LIMITED');
      return key;
    },
    require(one, scopes, reason) {
      const key = keptOf(one);
      alive(key);
      const has = (scope: string): boolean => key.attributes.scopes.includes(scope);
      if (scopes.length > 0 && !scopes.some((set) => set.split('+').every(has)))
        throw new Refusal(403, reason, `the key needs ${scopes.join(' or ')}`);
    },
    reach({ attributes }, sessionId) {
      if (!(attributes.numbers ?? numbers).some((number) => number === sessionId))
        throw new Refusal(404, 'SESSION_NOT_FOUND');
    },
    addNumber(one, sessionId) {
      const key = keptOf(one);
      const { creates = 0, numbers: own } = key.attributes;
      if (key.created >= creates) throw new Refusal(403, undefined, `the key may create ${creates} numbers`);
      key.created++;
      numbers.push(sessionId);
      if (own) key.attributes = { ...key.attributes, numbers: [...own, sessionId] };
      change(key, `number ${sessionId} created`);
    },
    reads({ attributes }, { sessionId }) {
      return !attributes.numbers || (sessionId !== null && attributes.numbers.includes(sessionId));
    },
    lastSecret: () => lastSecret,
    kept: () =>
      [...keys.values()].map((key) => ({
        ...{ id: key.id, attributes: key.attributes, expiresAt: orNull(key.expiresAt) },
        ...{ created: key.created, revoked: key.revoked },
        secrets: [...secrets].flatMap(([of, one]) => (one.key === key ? [[of, orNull(one.until)]] : [])),
      })),
    restore({ secrets: own, expiresAt, attributes, ...rest }) {
      const made = checked(attributes, numbers);
      const key: Kept = { ...made, ...rest, expiresAt: expiresAt ?? Infinity, timeline: [] };
      keys.set(key.id, key);
      for (const [of, until] of own) secrets.set(of, { key, until: until ?? Infinity });
      return key;
    },
    note: (key, what) => void key.timeline.push({ at: iso(clock.now()) ?? '', what }),
    onChange: (listener) => void listeners.push(listener),
  };
}

/** `numbers`: all numbers of the account. Throws Refusal (API_KEY_*) if an attribute is invalid. */
function checked(attributes: KeyAttributes, numbers: string[]): Pick<Kept, 'attributes' | 'ips'> {
  const { name, scopes, validDays, numbers: only, ips, creates, perMinute } = attributes;
  const refuse = (what: string, detail?: string): never => {
    throw new Refusal(400, `API_KEY_${what}`, detail);
  };
  if (validDays === undefined || !name.trim() || scopes.length === 0 || scopes.some((scope) => !SCOPES.has(scope)))
    refuse('INPUT_INVALID', `it needs a name, a validity, and scopes of ${[...SCOPES].join(', ')}`);
  if (validDays !== null && !(validDays >= 1 && validDays <= LONGEST_DAYS))
    refuse('EXPIRY_INVALID', `1 to ${LONGEST_DAYS} days, or no expiry`);
  if (only?.length === 0) refuse('EMPTY_DEVICES');
  if (only?.some((number) => !numbers.includes(number))) refuse('DEVICES_INVALID');
  if (only && scopes.some(isAccountWide)) refuse('RESTRICTED_SCOPE_INVALID');
  if (creates !== undefined && !scopes.includes('sessions:manage')) refuse('CREATION_SCOPE_REQUIRED');
  if (creates !== undefined && !(Number.isInteger(creates) && creates >= 1)) refuse('CREATION_QUOTA_REQUIRED');
  if (ips && ips.length > 50) refuse('IPS_INVALID', 'at most 50');
  if (perMinute !== undefined && !(Number.isInteger(perMinute) && perMinute >= 1 && perMinute <= 120))
    refuse('RATE_INVALID', '1 to 120 calls a minute');
  try {
    return { attributes: { ...attributes }, ips: ips?.length ? blockListOf(ips) : undefined };
  } catch {
    return refuse('IPS_INVALID', 'each must be an IP address or a CIDR range');
  }
}

/** The scopes that a key with restricted numbers cannot have (contract 5.4). */
function isAccountWide(scope: string): boolean {
  return scope === 'dashboard:read' || (scope.startsWith('product:') && scope !== 'product:inbox');
}

/** JSON has no infinity. */
function orNull(ms: number): number | null {
  return ms === Infinity ? null : ms;
}

function hash(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
