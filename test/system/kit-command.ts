// Runs `npx kit` beside a kit of a test.
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import type { Kit } from './kit.ts';

interface Ended {
  code: number;
  out: string;
}

/** Runs `npx kit` of this project, or of the one at `root`. */
export function kitCommand(kit: Kit, env: Record<string, string>, args: string[], root = '.'): Promise<Ended> {
  const own = { PATH: process.env['PATH'], PORT: String(kit.port), OPS_PORT: String(kit.opsPort), ...env };
  return new Promise((done) => {
    const file = resolve(root, 'src/cli/kit.js');
    const child = execFile(process.execPath, [file, ...args], { cwd: kit.folder, env: own }, (_, out, err) =>
      done({ code: child.exitCode ?? -1, out: out + err }),
    );
  });
}
