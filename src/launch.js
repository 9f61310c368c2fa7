// Runs a TypeScript entry point on Node 24 or newer, whichever Node runs this file. Plain JavaScript, so that an old
// Node can read it: it hands over to the Node that npm installed with the project, or says how to get one.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const OLDEST = 24;

export async function launch(entry, args) {
  if (Number(process.versions.node.split('.')[0]) >= OLDEST) {
    process.argv = [process.execPath, entry, ...args];
    await import(pathToFileURL(entry).href);
    return;
  }
  const name = `node-${process.platform}-${process.arch}`;
  const installed = fileURLToPath(new URL(`../node_modules/${name}/bin/node`, import.meta.url));
  if (!existsSync(installed)) {
    console.error(
      `This needs Node ${OLDEST} or newer, and runs on ${process.version}. Do one of these:\n` +
        `  npm ci               installs Node 24 beside the project (Linux on x64 or arm64)\n` +
        `  nodejs.org/download  a newer Node for this machine`,
    );
    process.exit(78);
  }
  const child = spawn(installed, [entry, ...args], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

const [, self, entry, ...args] = process.argv;
if (self && entry && resolve(self) === fileURLToPath(import.meta.url)) await launch(resolve(entry), args);
