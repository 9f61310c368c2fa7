// What the story and the tests of releases share: signed bodies, commands, and waiting for a condition.
import { createHmac } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { SECRET, type Kit } from '../system/kit.ts';
import { kitCommand } from '../system/kit-command.ts';

/** Delivers a body, signed. Throws unless it is accepted. */
export async function send(kit: Kit, body: string | object): Promise<void> {
  const bytes = typeof body === 'string' ? body : JSON.stringify(body);
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const mac = createHmac('sha256', SECRET).update(`${timestamp}.`).update(bytes).digest('hex');
  const headers = { 'content-type': 'application/json', 'x-svc-timestamp': timestamp, 'x-svc-signature': `v1=${mac}` };
  const { status } = await fetch(`http://127.0.0.1:${kit.port}/webhooks`, { method: 'POST', headers, body: bytes });
  if (status !== 204) throw new Error(`a delivery got ${status}: ${bytes}`);
}

/** Resolves to what the command prints. Throws if it fails. */
export async function command(kit: Kit, env: Record<string, string>, ...args: string[]): Promise<string> {
  const { code, out } = await kitCommand(kit, env, args);
  if (code !== 0) throw new Error(`npx kit ${args.join(' ')} ended with ${code}: ${out}`);
  return out;
}

export async function until(holds: () => boolean | Promise<boolean>, what: string, limitMs = 60_000): Promise<void> {
  for (const end = performance.now() + limitMs; !(await holds()); await sleep(20))
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
}

export interface Ran {
  handler: string;
  key: string;
  notes: Record<string, unknown>;
}

/** The attempts that handlers noted, in order. */
export function ranIn(file: string): Ran[] {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  return lines.filter(Boolean).map((line) => JSON.parse(line) as Ran);
}
