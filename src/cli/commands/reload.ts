// Lets the receiver read secrets and handlers again, without a restart. The request is a signal, and the answer comes
// through the store.
import { readFileSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../base/errors.ts';
import { startOf } from '../../base/process-start.ts';
import type { Process, Reloaded } from '../../store/processes.ts';
import type { Store } from '../../store/store.ts';
import { parse, type Command } from '../lib/command.ts';
import { clean, count, fail, print, printJson } from '../lib/print.ts';
import { clock, withStore } from '../lib/store.ts';

const LOOK_MS = 50;
/** Maximum wait for the outcome. It exceeds the time limits for loading a file and for ending a handler. */
const PATIENCE_MS = 90_000;

export default {
  summary: 'read secrets and handlers again, without a restart',
  usage: `reload [--json]
  Reloads every receiver of this store on this machine. With several machines, run it on each.
  Works on a terminal, under systemd and inside a container. Deliveries are accepted meanwhile.`,
  async run(args) {
    const { values } = parse(args, { flags: ['json'], names: false });
    return withStore(async (store) => {
      const receivers = (await store.processes.list()).filter((one) => one.role === 'receive' && lives(one));
      if (receivers.length === 0)
        return fail(
          'no receiver on this store is visible from here: npm start; in compose: docker compose exec receiver kit reload',
          EXIT.unreachable,
        );
      let exit: number = EXIT.done;
      for (const receiver of receivers) {
        if (receivers.length > 1 && !values.json) print(`process ${receiver.pid}:`);
        exit = Math.max(exit, await reload(store, receiver, values.json));
      }
      return exit;
    });
  },
} satisfies Command;

async function reload(store: Store, receiver: Process, json = false): Promise<number> {
  const { pid } = receiver;
  if (!signal(pid, 0)) return fail(`process ${pid}, which receives, is of user ${userOf(pid)}: run this as that user`);
  const asked = await store.processes.askReload();
  signal(pid, 'SIGUSR2');
  const outcome = await outcomeOf(store, receiver, asked);
  return typeof outcome === 'string' ? fail(outcome) : tell(outcome, json);
}

/** Waits for a reload that began after the request. Resolves to its outcome, or to the reason why there is none. */
async function outcomeOf(store: Store, receiver: Process, asked: number): Promise<Reloaded | string> {
  for (const began = clock.monotonic(); clock.monotonic() - began < PATIENCE_MS; await sleep(LOOK_MS)) {
    const alive = lives(receiver);
    const outcome = await store.state.get('reloaded');
    if (outcome && outcome.asked >= asked) return outcome;
    if (!alive) return `process ${receiver.pid} ended before it had reloaded: see its log`;
  }
  return `process ${receiver.pid} does not answer: see its log, and npx kit status`;
}

function tell({ handlers, ms, faults, old, restart, warnings = [] }: Reloaded, json: boolean): number {
  const reloaded = old === null;
  if (json) printJson({ reloaded, handlers, ms, faults, restart, warnings });
  else if (reloaded) print(`reloaded ${count(handlers.length, 'handler')} in ${ms} ms`);
  else fail([...faults, `the old ${old}`].map(clean).join('\n'));
  if (!json && reloaded) for (const warning of warnings) print(clean(warning));
  if (!json && restart.length > 0) print(`changed, but these take a restart: ${restart.join(', ')}`);
  return reloaded ? EXIT.done : EXIT.failed;
}

/** Whether the process still runs. Another process with the same pid has another start time. */
function lives({ pid, started }: Process): boolean {
  return startOf(pid) === started && signal(pid, 0) !== undefined;
}

/** False if this user may not signal the process. Undefined if the process has ended. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean | undefined {
  try {
    return process.kill(pid, name);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? false : undefined;
  }
}

/** The name of the process's user. If /etc/passwd has no name, the user's number. */
function userOf(pid: number): string {
  const uid = String(statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? 'unknown');
  const names = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  return names.find(([, , id]) => id === uid)?.[0] ?? uid;
}
