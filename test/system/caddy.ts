// The proxy of compose.yaml before a kit, with the configuration from that file. Only the addresses differ.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { freePort, until, type Kit } from './kit.ts';

/** The oldest version of Caddy that must work: the version in Debian stable. */
export const OLDEST = '2.6.2';

export interface Caddy {
  port: number;
  tlsPort: number;
  stop(): Promise<void>;
}

export function hasCaddy(): boolean {
  try {
    const found = execFileSync('caddy', ['version'], { encoding: 'utf8' });
    return weight(found) >= weight(OLDEST);
  } catch {
    return false;
  }
}

function weight(version: string): number {
  const [, ...parts] = /(\d+)\.(\d+)\.(\d+)/.exec(version) ?? [];
  return parts.reduce((sum, part) => sum * 1_000 + Number(part), 0);
}

/** Starts Caddy. Resolves when it serves its certificate. */
export async function startCaddy(kit: Kit): Promise<Caddy> {
  const port = await freePort();
  const tlsPort = await freePort();
  const file = join(kit.folder, 'Caddyfile');
  writeFileSync(file, caddyfile(kit.port, port, tlsPort));
  const caddy = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: kit.folder },
  });
  let said = '';
  caddy.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await until(() => {
    if (caddy.exitCode !== null) throw new Error(`caddy ended:\n${said}`);
    return said.includes('certificate obtained successfully');
  });
  // The proxy uses a new certificate only after a moment.
  let shown = false;
  const ask = (): void => {
    const options = {
      host: '127.0.0.1',
      servername: 'localhost',
      port: tlsPort,
      agent: false,
      rejectUnauthorized: false,
    };
    request(options, (response) => {
      response.resume();
      shown = true;
    })
      .on('error', ask)
      .end();
  };
  ask();
  await until(() => shown);
  return {
    port,
    tlsPort,
    async stop() {
      if (caddy.exitCode !== null) return;
      caddy.kill('SIGKILL');
      await once(caddy, 'close');
    },
  };
}

/**
 * The proxy's configuration in compose.yaml, changed for loopback: variables filled in, a plain port beside the TLS
 * port, and a self-signed certificate.
 */
function caddyfile(receiver: number, port: number, tlsPort: number): string {
  const compose = readFileSync('compose.yaml', 'utf8');
  const content = /content: \|\n((?: {6}.*\n|\n)+)/.exec(compose)?.[1] ?? '';
  const text = content
    .replaceAll(/^ {6}/gm, '')
    .replace(/^\{$/m, '{\ndefault_bind 127.0.0.1\nskip_install_trust\nauto_https disable_redirects')
    .replace(
      /^\$\{SITE_ADDRESS.*\}, https:\/\/ \{$/m,
      `http://:${port}, localhost:${tlsPort}, https://:${tlsPort} {\ntls internal`,
    )
    .replaceAll(/\$\{WEBHOOK_PATH:-(.*?)\}/g, '$1')
    .replace('receiver:3000', `127.0.0.1:${receiver}`);
  const left = /^.*(\$|receiver:).*$/m.exec(text)?.[0];
  if (left !== undefined) throw new Error(`compose.yaml: not filled in for the test: ${left.trim()}`);
  return text;
}
