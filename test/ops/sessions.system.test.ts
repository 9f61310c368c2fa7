// A real reload logs nobody out, unless it brings another token.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newKit } from '../system/new-kit.ts';

const TOKEN = 'the-token-that-may-change-things';

test('a reload logs nobody out, and a reload with another token does', async () => {
  const kit = await newKit({}, { OPS_TOKEN_FILE: 'token' });
  const setToken = (token: string): void => writeFileSync(join(kit.folder, 'token'), token, { mode: 0o600 });
  setToken(TOKEN);
  await kit.start();
  await kit.alive('keep');
  const at = `http://127.0.0.1:${kit.opsPort}`;
  const body = new URLSearchParams({ token: TOKEN });
  const answer = await fetch(`${at}/login`, { method: 'POST', redirect: 'manual', headers: { origin: at }, body });
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  const see = async (): Promise<number> => (await fetch(at, { headers: { cookie } })).status;
  expect(await see()).toBe(200);
  await kit.reload();
  expect(await see()).toBe(200);
  setToken(`${TOKEN}-2`);
  await kit.reload();
  expect(await see()).toBe(401);
});
