// Runs an entry point on Node 24 or newer. If the present Node is too old, it starts the Node that npm installed with
// the project. npm 10 installs that Node without linking it, so it is found by path.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { refuseRuntime, tooOld } from './runtime.js';

export async function launch(entry, args) {
  if (!tooOld()) {
    keepCompiled();
    process.argv = [process.execPath, entry, ...args];
    await import(pathToFileURL(entry).href).catch(refuseEvents);
    return;
  }
  const name = `node-${process.platform}-${process.arch}`;
  const installed = fileURLToPath(new URL(`../../../node_modules/${name}/bin/node`, import.meta.url));
  if (!existsSync(installed)) refuseRuntime();
  const child = spawn(installed, [...process.execArgv, entry, ...args], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

/** Every process and command reads src/events.ts, which is the user's. Any other error is thrown. */
async function refuseEvents(error) {
  const { describe, EXIT } = await import('../errors.ts');
  const { name, message, at } = describe(error);
  const file = fileURLToPath(new URL('../../events.ts', import.meta.url));
  const place = at?.startsWith(file) ? at : message.includes("'../events.ts'") ? file : undefined;
  if (place === undefined) throw error;
  const fault = `${place}: ${name}: ${message.replaceAll(/\s+/g, ' ')}`;
  if (process.send) await new Promise((sent) => process.send({ type: 'faults', faults: [fault] }, sent));
  else console.error(`${fault}\nNothing starts until src/events.ts is fixed.`);
  process.exit(EXIT.configuration);
}

/** Keeps compiled code on disk, so that the processes start faster and need less memory. NODE_COMPILE_CACHE moves it. */
function keepCompiled() {
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../../../node_modules/.cache/compiled', import.meta.url));
  module.enableCompileCache(process.env.NODE_COMPILE_CACHE);
}

const [, self, entry, ...args] = process.argv;
if (self && entry && resolve(self) === fileURLToPath(import.meta.url)) await launch(resolve(entry), args);
