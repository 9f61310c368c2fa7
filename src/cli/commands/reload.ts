// Reads secrets and handlers again, without a restart: asks the receiver of this store by a signal that does the same
// everywhere, and tells what became of it. The answer comes through the store, whoever's terminal this is.
import { readFileSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../base/errors.ts';
import { startOf } from '../../base/process-start.ts';
import type { Process, Reloaded } from '../../store/processes.ts';
import type { Store } from '../../store/store.ts';
import { clean, clock, count, fail, parse, print, printJson, withStore, type Command } from '../lib/command.ts';

const LOOK_MS = 50;
/** A file that is being loaded is given up after a minute, and a handler that ends after some seconds. */
const PATIENCE_MS = 90_000;

const command: Command = {
  summary: 'read secrets and handlers again, without a restart',
  usage: `reload [--json]
  Works on a terminal, under systemd and inside a container. No delivery is refused meanwhile.`,
  async run(args) {
    const { values } = parse(args, { json: { type: 'boolean' } }, { names: false });
    return withStore(async (store) => {
      const receiver = (await store.processes()).find(({ role }) => role === 'receive');
      if (!receiver || !lives(receiver))
        return fail(
          'no receiver runs on this store, as far as can be seen from here: npm start; in compose: docker compose exec receiver kit reload',
          EXIT.unreachable,
        );
      const { pid } = receiver;
      if (!signal(pid, 0))
        return fail(`process ${pid}, which receives, is of user ${userOf(pid)}: run this as that user`);
      const asked = await store.askReload();
      signal(pid, 'SIGUSR2');
      const outcome = await outcomeOf(store, receiver, asked);
      return typeof outcome === 'string' ? fail(outcome) : tell(outcome, values.json);
    });
  },
};
export default command;

/** Until a reload that began after the question has ended, or why there is none. */
async function outcomeOf(store: Store, receiver: Process, asked: number): Promise<Reloaded | string> {
  for (const began = clock.monotonic(); clock.monotonic() - began < PATIENCE_MS; await sleep(LOOK_MS)) {
    const alive = lives(receiver);
    const outcome = await store.reloaded();
    if (outcome && outcome.asked >= asked) return outcome;
    if (!alive) return `process ${receiver.pid} ended before it had reloaded: see its log`;
  }
  return `process ${receiver.pid} says nothing: see its log, and npx kit status`;
}

function tell({ handlers, ms, faults, old, restart }: Reloaded, json = false): number {
  const reloaded = old === null;
  if (json) printJson({ reloaded, handlers, ms, faults, restart });
  else if (reloaded) print(`reloaded ${count(handlers.length, 'handler')} in ${ms} ms`);
  else fail([...faults, `the old ${old}`].map(clean).join('\n'));
  if (!json && restart.length > 0) print(`changed, and taken at the next start of the kit only: ${restart.join(', ')}`);
  return reloaded ? EXIT.done : EXIT.failed;
}

/** Of a process that has ended the kernel knows no start, and of its number's next owner another. */
function lives({ pid, started }: Process): boolean {
  return startOf(pid) === started && signal(pid, 0) !== undefined;
}

/** False where it is not ours to signal, undefined where it is gone. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean | undefined {
  try {
    return process.kill(pid, name);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? false : undefined;
  }
}

/** By name, if this machine has one for it. */
function userOf(pid: number): string {
  const uid = String(statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? 'unknown');
  const names = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  return names.find(([, , id]) => id === uid)?.[0] ?? uid;
}
