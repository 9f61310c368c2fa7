// Loads the handlers in a `run` process of their own, so that their top-level code cannot end or block doctor.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { envOfRun } from '../../base/secrets.ts';
import type { Orders, Report } from '../../processes/channel.ts';
import { crashedBy, type Exit } from '../../processes/exit.ts';
import { NOTHING } from '../../processes/spawn.ts';
import { misconfigured, ok, warning, type Check, type Finding } from './check.ts';

/** The process is killed after this time, because an endless loop never reports. One file may take 10 s. */
const LIMIT_MS = 20_000;
const RUN = fileURLToPath(new URL('../../run/main.ts', import.meta.url));

export const handlers: Check = {
  name: 'handlers',
  needs: ['HANDLERS_DIR'],
  run: ({ env, config: { handlersDir } }) =>
    new Promise<Finding | Finding[]>((resolve) => {
      const child = fork(RUN, ['check'], {
        env: envOfRun(env),
        stdio: 'ignore',
        timeout: LIMIT_MS,
        killSignal: 'SIGKILL',
      });
      const loaded: { names: string[]; notes: string[] } = { names: [], notes: [] };
      let at: Exit['at'];
      let cause: Exit['cause'];
      child.on('message', (report: Report) => {
        if (report.type === 'at') at = report;
        if (report.type === 'exit cause') ({ cause } = report);
        if (report.type === 'loaded') {
          Object.assign(loaded, { names: report.handlers.map(({ name }) => name), notes: report.notes });
          child.send({ ...NOTHING, type: 'prepare' } satisfies Orders);
        }
        if (report.type === 'faults') resolve(report.faults.map(broken));
        if (report.type === 'prepared')
          resolve(
            report.faults.length > 0 ? report.faults.map(({ fault }) => broken(fault)) : judge(loaded, handlersDir),
          );
        if (report.type === 'faults' || report.type === 'prepared') child.kill('SIGKILL');
      });
      child.on('close', (code, signal) => {
        const crash = crashedBy({ code, signal, cause, at, hung: signal === 'SIGKILL', livedMs: 0 });
        const words = crash?.fault ?? `a file in ${handlersDir} ends the process (${signal ?? `exit code ${code}`})`;
        resolve(misconfigured(words, 'keep its top level to imports, and setup to creating tables'));
      });
    }),
};

function broken(fault: string): Finding {
  return misconfigured(fault, 'fix the file, then npx kit reload');
}

function judge({ names, notes }: { names: string[]; notes: string[] }, folder: string): Finding[] {
  if (names.length === 0)
    return [warning(`there are none in ${folder}: events are stored and wait`, 'write one: see templates/')];
  const slips = notes.map((note) => warning(note, 'fix `on`, then npx kit reload'));
  return [ok(`${names.length} loaded: ${names.join(', ')}`), ...slips];
}
