// The handlers, loaded by the process that would run them, so that what they do at their top level costs nothing here.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Report } from '../../process.ts';
import { misconfigured, ok, warning, type Check, type Finding } from './check.ts';

/** Each file may take 10 s; one that spins never says so. */
const LIMIT_MS = 20_000;
const RUN = fileURLToPath(new URL('../../run/main.ts', import.meta.url));

export const handlers: Check = {
  name: 'handlers',
  needs: ['HANDLERS_DIR'],
  run: ({ env, config: { handlersDir } }) =>
    new Promise<Finding | Finding[]>((resolve) => {
      const child = fork(RUN, { env, stdio: 'ignore', timeout: LIMIT_MS, killSignal: 'SIGKILL' });
      child.on('message', (report: Report) => {
        if (report.type === 'loaded') resolve(judge(report.handlers, handlersDir));
        if (report.type === 'faults')
          resolve(report.faults.map((one) => misconfigured(one, 'mend the file, then npx kit reload')));
        if (report.type !== 'beat') child.kill('SIGKILL');
      });
      child.on('close', (code, signal) => {
        const slow = signal === 'SIGKILL';
        const how = slow
          ? `takes more than ${LIMIT_MS / 1000} s`
          : `ends the process (${signal ?? `exit code ${code}`})`;
        resolve(misconfigured(`a file in ${handlersDir} ${how} while it is loaded`, 'keep its top level to imports'));
      });
    }),
};

function judge(names: string[], folder: string): Finding {
  if (names.length > 0) return ok(`${names.length} loaded: ${names.join(', ')}`);
  return warning(`there are none in ${folder}: events are stored and wait for nobody`, 'write one: see templates/');
}
