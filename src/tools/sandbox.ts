// Runs the kit's main process on a store in the system's temp folder, and removes the store at the end. The demo and
// `npm run dev` use this sandbox, so they never touch the real store.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export type MainProcess = ChildProcess & { stdout: Readable; stderr: Readable };

export interface Sandbox {
  /** The address of the webhook. */
  url: string;
  opsUrl: string;
  storeUrl: string;
  /** Starts the kit, or starts an ended kit again on the same store and ports. */
  start(): MainProcess;
  /** Sends SIGTERM, and SIGKILL after `limitMs`. Resolves when the kit has ended, or after twice `limitMs`. */
  stop(limitMs: number): Promise<void>;
  /** Sends SIGKILL to all processes of the kit. */
  kill(): void;
}

/**
 * `env` replaces the environment of this process. A missing PORT or OPS_PORT becomes a free port, a missing DATABASE_URL
 * an SQLite file in the folder.
 */
export async function createSandbox(
  name: string,
  env: Record<string, string | undefined>,
  args: string[] = [],
): Promise<Sandbox> {
  const folder = mkdtempSync(join(tmpdir(), `kit-${name}-`));
  const storeUrl = env['DATABASE_URL'] ?? `sqlite:${join(folder, 'events.db')}`;
  const port = env['PORT'] ?? String(await freePort());
  const opsPort = env['OPS_PORT'] ?? String(await freePort());
  let main: MainProcess | undefined;
  let closed: Promise<unknown> = Promise.resolve();

  process.once('exit', () => {
    main?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    opsUrl: `http://127.0.0.1:${opsPort}`,
    storeUrl,
    start() {
      main = spawn(process.execPath, [fileURLToPath(new URL('../main.ts', import.meta.url)), '--sandbox', ...args], {
        // `cwd` is not the clone, because the .env there belongs to the real kit. `detached` keeps the kit out of this
        // terminal's process group, so that Ctrl-C reaches only this process.
        cwd: folder,
        detached: true,
        // If this process is killed, the IPC channel closes and the kit stops.
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        env: {
          NODE_COMPILE_CACHE: join(folder, 'compiled'),
          ...env,
          HOST: '127.0.0.1',
          PORT: port,
          OPS_PORT: opsPort,
          DATABASE_URL: storeUrl,
        },
      }) as MainProcess;
      // The kit's child processes share these pipes, so the pipes close when the last process has ended.
      closed = once(main, 'close');
      return main;
    },
    async stop(limitMs) {
      main?.kill('SIGTERM');
      await Promise.race([closed, sleep(limitMs, undefined, { ref: false })]);
      main?.kill('SIGKILL');
      await Promise.race([closed, sleep(limitMs, undefined, { ref: false })]);
    },
    kill() {
      // The processes of the kit are a group, because the main process was started as `detached`.
      if (main?.pid !== undefined) process.kill(-main.pid, 'SIGKILL');
    },
  };
}

/** This port of 127.0.0.1 if it is free, otherwise another one. */
export async function freePort(wanted = 0): Promise<number> {
  const server = createServer().listen(wanted, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return freePort();
  }
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
