// Secrets that are echoed by texts from outside, and the files that hold them.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { describe } from '../../src/base/errors.ts';
import { filesForAll, masked } from '../../src/base/secrets.ts';
import { loadConfig } from '../../src/config.ts';
import { errorOf, ServiceError } from '../../src/service/errors.ts';

const KEY = 'svc_live_0123456789abcdef';
const env = { WEBHOOK_SECRET: 'whsec_0123456789abcdef', API_KEY: KEY, API_BASE_URL: 'https://api.example/v1' };
loadConfig(env);

test('E87: the service echoes the API key as request id, code or reason: every field of the error masks it', () => {
  const headers = new Headers({ 'x-request-id': KEY });
  const upper = 'SVC_LIVE_0123456789ABCDEF';
  loadConfig({ ...env, API_KEY: upper });
  const text = JSON.stringify({ error: { code: upper, reason: upper, requestId: KEY } });
  for (const body of [text, '<html>']) {
    const error = errorOf('ReplayEvents', new Response(null, { status: 500, headers }), body);
    const { message, code, reason, requestId } = error;
    expect(JSON.stringify([message, code, reason, requestId])).not.toMatch(/0123456789abcdef/i);
    expect(requestId).toBe('***');
  }
  expect(new ServiceError({ code: 'INTERNAL', message: `got ${KEY}` }).message).toBe('got ***');
});

test('E87: the error of a handler is masked before it is stored', () => {
  const echoing = new Error(`no ${KEY}`, { cause: new Error(env.WEBHOOK_SECRET) });
  expect(describe(echoing).message).toBe('no ***: ***');
  expect(describe(`thrown ${KEY}`).message).toBe('thrown ***');
  // Cut in the middle, a secret could no longer be found.
  expect(describe(new Error(`${'x'.repeat(1_990)}${KEY}`)).message).not.toContain('svc_');
});

test('E87: a secret that a reload has replaced stays masked, and short texts are no secrets', () => {
  loadConfig({ ...env, API_KEY: 'key_1' });
  expect(masked(`${KEY} key_1`)).toBe('*** key_1');
});

test('E87: of two secrets, of which one begins with the other, nothing is left in sight', () => {
  for (const API_KEY of ['svc_live_one', 'svc_live_one_and_more']) loadConfig({ ...env, API_KEY });
  expect(masked('a svc_live_one_and_more b svc_live_one c')).toBe('a *** b *** c');
});

test('E87: the files with secrets that every user can read are named', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-secrets-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const write = (name: string, mode: number): string => {
    const path = join(folder, name);
    writeFileSync(path, '');
    chmodSync(path, mode);
    return path;
  };
  const [open, group, own] = [write('open', 0o644), write('group', 0o640), write('own', 0o600)];
  const secretFiles = {
    API_KEY_FILE: open,
    OPS_TOKEN_FILE: group,
    ALERT_URL_FILE: own,
    WEBHOOK_SECRET_FILE: join(folder, 'no'),
  };
  expect(filesForAll(secretFiles, folder)).toEqual([open]);
  const dotenv = write('.env', 0o604);
  expect(filesForAll({}, folder)).toEqual([dotenv]);
  write('.env', 0o600);
  expect(filesForAll({}, folder)).toEqual([]);
});
