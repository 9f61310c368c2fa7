// Stray errors and ends of the process, in processes of their own: what handlers cause fails their attempt alone.
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

const BEGIN = `
  import { AsyncLocalStorage } from 'node:async_hooks';
  import * as named from 'node:process';
  const { Scope, traceErrors } = await import(${JSON.stringify(`file://${resolve('src/run/stray.ts')}`)});
  const scopes = new AsyncLocalStorage();
  const logged = Promise.withResolvers();
  const tell = (fields) => logged.resolve(console.log(JSON.stringify(fields)));
  traceErrors({ scopes, log: { error: tell, fatal: tell } });
`;

function node(script: string): { status: number | null; lines: string[] } {
  const args = ['--input-type=module', '-e', `${BEGIN}${script}`];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return { status, lines: stdout.trim().split('\n') };
}

const called = (name: string): string => `called process.${name}, which would end all handlers: throw an error instead`;

test('what happens in a scope makes it fail, with its own error, and the process goes on', () => {
  const cases: [string, string][] = [
    [`void Promise.resolve().then(() => { throw new Error('rejected') })`, 'rejected'],
    [`setTimeout(() => { throw new Error('thrown in a timer') })`, 'thrown in a timer'],
    ['process.exit(3)', called('exit')],
    ['named.exit(3)', called('exit')],
    ['try { process.exit() } catch {}', called('exit')],
    ['process.reallyExit(3)', called('reallyExit')],
    ['process.abort()', called('abort')],
  ];
  const { status, lines } = node(`
    for (const work of [${cases.map(([code]) => `() => { ${code} }`).join()}]) {
      const scope = new Scope('/handlers/one.ts');
      const forever = async () => { work(); await new Promise(() => {}); };
      await scope.wait(scopes.run(scope, forever), 10_000).catch((error) => scope.fail(error));
      console.log(scope.failure.error.message);
    }`);
  expect(lines).toEqual(cases.map(([, message]) => message));
  expect(status).toBe(0);
});

test('what comes after the end of its scope is logged without its message, and the process goes on', () => {
  const { status, lines } = node(`
    const scope = new Scope('/handlers/one.ts', { handler: 'one', key: 'c:1' });
    scopes.run(scope, () => setTimeout(() => { throw new RangeError('+49 170 1234567') }));
    scope.close();
    await logged.promise;
    console.log(scope.failure);`);
  expect(lines).toEqual([expect.stringContaining('"handler":"one","key":"c:1","error":"RangeError"'), 'undefined']);
  expect([status, lines.join().includes('1234567')]).toEqual([0, false]);
});
