// The account of `npm run service`, kept in a file, so that a rehearsal goes on after a restart: keys, webhooks, numbers
// and history. Faults, limits and what the console has set apart from keys begin anew.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { SimulatedEvent } from './history.ts';
import type { Key, KeptKey } from './keys.ts';
import type { SimulatedService } from './service.ts';

interface Kept {
  /** The secret of the newest key. It opens nothing but the simulator. */
  apiKey: string;
  numbers: string[];
  past: SimulatedEvent[];
  keys: KeptKey[];
  webhooks: { key: string; url: string; events: string[]; secret: string }[];
}

/** The newest events that are kept. */
const MOST_EVENTS = 10_000;

/** Undefined: there is no account yet. Throws if the file is no account. */
export function readAccount(file: string): Kept | undefined {
  if (!existsSync(file)) return undefined;
  try {
    const { apiKey, numbers, past, keys, webhooks } = JSON.parse(readFileSync(file, 'utf8')) as Kept;
    return { apiKey, numbers: [...numbers], past: [...past], keys: [...keys], webhooks: [...webhooks] };
  } catch (error) {
    throw new Error(`${file} holds no account: delete it, or begin with --new`, { cause: error });
  }
}

/** Makes keys and webhooks again. Resolves to the newest key. */
export async function restoreAccount(service: SimulatedService, { keys, webhooks }: Kept): Promise<Key | undefined> {
  const made = keys.map((one) => service.keys.restore(one));
  for (const { key: id, ...registration } of webhooks) {
    const key = made.find((one) => one.id === id);
    // A key that has ended keeps no webhook (contract 3.2).
    if (key) await service.webhooks.register(key, registration).catch(() => {});
  }
  return made.at(-1);
}

/** Returns a function that writes the file if something has changed. */
export function createSaving(file: string, service: SimulatedService, before = ''): () => void {
  const { keys, webhooks, history } = service;
  let last = '';

  return () => {
    const small = {
      apiKey: keys.lastSecret() || before,
      numbers: history.numbers,
      keys: keys.kept(),
      webhooks: webhooks.all().map((one) => {
        const { url, events } = one;
        return { key: webhooks.keyOf(one)?.id ?? '', url, events: [...events], secret: one.secret() };
      }),
    };
    const past = history.all();
    const now = `${past.length} ${JSON.stringify(small)}`;
    if (now === last) return;
    last = now;
    mkdirSync(dirname(file), { recursive: true });
    const kept: Kept = { ...small, past: past.slice(-MOST_EVENTS) };
    writeFileSync(`${file}.new`, JSON.stringify(kept), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  };
}
