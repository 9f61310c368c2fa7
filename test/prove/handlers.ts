// Hostile handlers, each beside a good one. The good one completes every event once; each task of the hostile one ends.
import { startKit, until } from '../harness.ts';
import { failure, unless, type Options, type Row } from './report.ts';
import { createSender } from './sender.ts';
import { COUNTING, look, ownStore } from './store.ts';

/** What a handler does with a message of this text. */
const EVIL: Record<string, string> = {
  spin: 'for (;;);',
  leak: 'const all = []; for (;;) all.push(new Array(1e6).fill(Math.random()));',
  exit: 'process.exit(0);',
  segfault: `process.kill(process.pid, 'SIGSEGV');`,
  overflow: 'const again = () => again() + 1; again();',
  timer: `setTimeout(() => { throw new Error('later'); }, 5);`,
  rejection: `void Promise.reject(new Error('nobody waits'));`,
  signals: `process.removeAllListeners(); process.on('SIGTERM', () => {});`,
  globals: `for (const name of ['setTimeout', 'Promise', 'Date', 'JSON', 'fetch']) try { globalThis[name] = null; } catch {}`,
  prototypes: `for (const of of [Array, Map, Promise, Object]) try { Object.defineProperty(of.prototype, 'then', { value: 1 }); } catch {}`,
  disconnect: 'process.disconnect();',
  null: 'throw null;',
  never: 'await new Promise(() => {});',
};

const evil = (code: string, name: string): string => `export default { name: '${name}', on: 'MessageReceived',
  timeoutMs: 1000, retry: { attempts: 2, firstMs: 10, maxMs: 10 },
  async handle(event) { if (event.data.body === '${name}') { ${code} } } };`;

export async function handlers(options: Options): Promise<Row[]> {
  const { short, progress } = options;
  const names = short ? ['exit', 'globals', 'never'] : Object.keys(EVIL);
  const rows: Row[] = [];
  for (const name of names) {
    const files = { 'counting.ts': COUNTING, 'evil.js': evil(EVIL[name] ?? '', name) };
    const kit = await startKit({ handlers: files, env: { ...ownStore(options), ORDER_WINDOW_MS: '20' } });
    await until('both handlers', async () => (await kit.status()).handlers.length === 2);
    const sender = createSender(() => kit.url, 20);
    const bodies = Array.from({ length: 120 }, (_, n) => (n % 40 === 20 ? name : 'hello'));
    await Promise.all(bodies.map((body) => sender.send({ body })));
    const isOver = async (): Promise<boolean> => {
      const { done, dead } = (await kit.status()).tasks;
      return done + dead >= 2 * bodies.length;
    };
    const began = Date.now();
    const violations = await failure(until('every task to end', isOver, 300_000));
    const { tasks } = await kit.status();
    const seen = await look(kit.store, sender.acknowledged);
    const isUp = (await sender.send()).id !== '';
    const code = await kit.stop();
    rows.push({
      what: `a hostile handler: ${name}`,
      seen: `${tasks.done} done, ${tasks.dead} dead, after ${Math.round((Date.now() - began) / 1_000)} s`,
      violations: [
        ...violations,
        ...seen.violations,
        ...unless(seen.done === bodies.length, `the good handler completed ${seen.done} of ${bodies.length}`),
        ...unless(tasks.dead <= 3, `${tasks.dead} dead letters`),
        ...unless(isUp && code === 0, `the kit ended with ${code}`),
      ],
    });
    progress(`${name}: ${rows.at(-1)?.seen} ${rows.at(-1)?.violations.join('; ')}`);
  }
  return rows;
}
