// The console's commands for the API key (contract 2.15, 3.1, 5). A setting is shown as the command that makes it.
import { helpOf, Wrong, type Rehearsal, type Usage } from './command.ts';
import type { KeyAttributes } from './keys.ts';

type Setting = [name: string, takes: string, does: string, attribute: keyof KeyAttributes];

const SETTINGS: Setting[] = [
  ['scopes', '<scope> …', 'what the key may do', 'scopes'],
  ['restrict', '[<number> …|off]', 'the numbers it reaches, or the first; replay pages can be empty', 'numbers'],
  ['creates', '<numbers>|off', 'how many numbers it may create; needs sessions:manage', 'creates'],
  ['limit', '<calls>|off', 'calls a minute on all routes, then 429 API_KEY_RATE_LIMITED', 'perMinute'],
  ['expires', '<days>|now|off', 'then calls get 401 API_AUTH_REQUIRED; off: never', 'validDays'],
  ['ips', '<address or range> …|off', 'calls from other addresses get 403 API_KEY_IP_FORBIDDEN', 'ips'],
];
const GRACE_HOURS = [0, 1, 24] as const;
const LISTS = new Set<keyof KeyAttributes>(['scopes', 'numbers', 'ips']);

export const KEY_COMMANDS: Usage[] = [
  { usage: 'key new', does: 'makes another key with the same settings' },
  { usage: 'key rotate 0|1|24', does: 'another secret; the old one is valid for so many hours' },
  { usage: 'key revoke', does: 'ends the key for good' },
  ...SETTINGS.map(([name, takes, does]) => ({ usage: `key ${name} ${takes}`, does })),
];

export function changeKey(rehearsal: Rehearsal, what?: string, ...words: string[]): string {
  const { service, key } = rehearsal;
  const { history, keys, replay } = service;
  if (what === 'revoke') {
    keys.revoke(key);
    return 'revoked for good: calls get 401, streams end, deliveries stop. For another: key new';
  }
  if (what === 'rotate') {
    const hours = GRACE_HOURS.find((one) => String(one) === words[0]);
    if (hours === undefined) throw new Wrong(helpOf(KEY_COMMANDS));
    return `  API_KEY=${keys.rotate(key, hours)}\n  Shown once. The old secret ends in ${hours} h. Webhooks go on`;
  }
  if (what === 'new') {
    const made = keys.create(key.attributes);
    rehearsal.key = made.key;
    return `  API_KEY=${made.secret}\n  Shown once. Webhooks belong to the key that registered them: register <url>`;
  }
  if (what === undefined) return `the key is ${keys.state(key)}\n${shown(rehearsal, SETTINGS)}`;
  const setting = SETTINGS.find(([name]) => name === what);
  if (!setting) throw new Wrong(helpOf(KEY_COMMANDS));
  const isNumbers = what === 'restrict';
  const value = isNumbers && words.length === 0 ? history.numbers.slice(0, 1) : words;
  if (what === 'expires' && words[0] === 'now') keys.expire(key);
  else if (value.length > 0) keys.edit(key, changeOf(setting, value));
  if (isNumbers) replay.filterAfterLimit = words[0] !== 'off';
  return shown(rehearsal, [setting]);
}

function changeOf([, , , attribute]: Setting, words: string[]): Partial<KeyAttributes> {
  const off = attribute === 'validDays' ? null : undefined;
  const value = LISTS.has(attribute) ? words : Number(words[0]);
  return { [attribute]: words[0] === 'off' && attribute !== 'scopes' ? off : value };
}

function shown({ service: { keys }, key }: Rehearsal, settings: Setting[]): string {
  const lines = settings.map(([name, , does, attribute]) => {
    const isOver = attribute === 'validDays' && keys.state(key) === 'expired';
    const value = isOver ? 'now' : [key.attributes[attribute] ?? 'off'].flat().join(' ');
    return { usage: `key ${name} ${value}`, does };
  });
  return helpOf(lines);
}
