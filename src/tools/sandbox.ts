// A kit for an hour: the main process as `npm start` runs it, on a store of its own in the system's temp folder, which
// goes with it. For the demo and for dev, which never touch the real store.
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

export interface Throwaway {
  /** Where it takes deliveries. */
  url: string;
  opsUrl: string;
  storePath: string;
  /** Again, too, once it has ended: on the same store and ports. */
  start(): MainProcess;
  /** SIGTERM, then SIGKILL after the limit; resolves when all its processes have gone. */
  stop(limitMs: number): Promise<void>;
}

/** What of the kit's variables `env` does not set has its default; PORT and OPS_PORT are free ones. */
export async function createThrowaway(
  name: string,
  env: Record<string, string | undefined>,
  args: string[] = [],
): Promise<Throwaway> {
  const folder = mkdtempSync(join(tmpdir(), `kit-${name}-`));
  const storePath = join(folder, 'events.db');
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
    storePath,
    start() {
      main = spawn(process.execPath, [fileURLToPath(new URL('../main.ts', import.meta.url)), '--throwaway', ...args], {
        // Not in the clone's folder, whose .env is the real kit's; not in this terminal's group, whose Ctrl-C is ours.
        cwd: folder,
        detached: true,
        // The channel: it ends where this process is killed.
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        env: {
          NODE_COMPILE_CACHE: join(folder, 'compiled'),
          ...env,
          HOST: '127.0.0.1',
          PORT: port,
          OPS_PORT: opsPort,
          DATABASE_URL: `sqlite:${storePath}`,
        },
      }) as MainProcess;
      // The others write to the same pipes: they close when the last has gone.
      closed = once(main, 'close');
      return main;
    },
    async stop(limitMs) {
      main?.kill('SIGTERM');
      await Promise.race([closed, sleep(limitMs, undefined, { ref: false })]);
      main?.kill('SIGKILL');
      await Promise.race([closed, sleep(limitMs, undefined, { ref: false })]);
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
