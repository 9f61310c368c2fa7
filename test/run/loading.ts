// A thread that loads folders of handlers as `run` does: with Node's own loader, which the test runner replaces in its
// own threads.
import { AsyncLocalStorage } from 'node:async_hooks';
import { parentPort } from 'node:worker_threads';
import type { Context, KitEvent } from '../../src/kit.ts';
import { ConfigError } from '../../src/config.ts';
import { loadHandlers } from '../../src/run/load-handlers.ts';
import { Dead, RetryAfter, Skip } from '../../src/kit.ts';

export interface Asked {
  folder: string;
  /** Whether the kit has an API key. */
  replay: boolean;
}

/** The fields of a loaded handler that can be sent to another thread. */
export interface Told {
  faults: string[];
  handlers: { on: string | string[]; [field: string]: unknown }[];
  /** The error that each handler threw when it was called. */
  thrown: string[];
}

parentPort?.on('message', (asked: Asked) => void tell(asked).then((told) => parentPort?.postMessage(told)));

async function tell({ folder, replay }: Asked): Promise<Told> {
  const told: Told = { faults: [], handlers: [], thrown: [] };
  try {
    const { handlers, faults } = await loadHandlers(folder, { replay, scopes: new AsyncLocalStorage() });
    told.faults = [...faults.values()];
    for (const { on, lane, handle, setup, file: _, ...rest } of handlers.values()) {
      const shown = { lane: typeof lane === 'function' ? 'function' : lane, setup: typeof setup };
      told.handlers.push({ ...rest, ...shown, on: on === '*' ? on : [...on] });
      told.thrown.push(await call(handle));
    }
  } catch (error) {
    told.faults = error instanceof ConfigError ? error.faults : [`not a fault: ${String(error)}`];
  }
  return told;
}

async function call(handle: (event: KitEvent, ctx: Context) => Promise<void> | void): Promise<string> {
  try {
    await handle({ data: {} } as KitEvent, {} as Context);
    return 'nothing';
  } catch (error) {
    const known = [Dead, RetryAfter, Skip].find((kind) => error instanceof kind);
    return known?.name ?? String(error);
  }
}
