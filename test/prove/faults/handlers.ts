// F21 to F30: handlers that throw, hang, spin, leak, exit or cannot be loaded, beside one that works.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { culprit, DEEDS } from '../../system/culprits.ts';
import { RECORD, until } from '../../system/kit.ts';
import { ask, eventually, stage, type Fault, type Scene } from './scene.ts';

const POISONED = `select t.state, t.attempts from tasks t join events e on e.seq = t.event join handlers h on h.id = t.handler
  where cast(e.body as text) like '%poison%' and h.name = 'culprit'`;

/**
 * Sends one poisoned event into a load of 100 events a second. The poisoned task must end in the expected state, and no
 * other task may lose an attempt.
 */
async function poison(scene: Scene, state: string): Promise<string> {
  const { kit } = scene;
  scene.load(100);
  await scene.acknowledge(20);
  scene.stood();
  await scene.rest();
  scene.load(100);
  await sleep(200);
  await scene.send(kit, 'poison');
  const poisoned = (): { state: string; attempts: number } | undefined =>
    kit.query<{ state: string; attempts: number }>(POISONED)[0];
  const began = performance.now();
  const ended = await eventually(() => state.split(' or ').includes(poisoned()?.state ?? ''), 90_000);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  scene.holds(ended, `the poisoned task is ${poisoned()?.state} after ${poisoned()?.attempts} attempts, not ${state}`);
  await scene.rest();
  const others = `select count(*) as n from tasks t join events e on e.seq = t.event where cast(e.body as text) not like '%poison%' and t.attempts > 1`;
  const cost = kit.query<{ n: number }>(others)[0]?.n ?? 0;
  scene.holds(cost === 0, `${cost} neighbours lost an attempt`);
  const runs = kit.output().split('run died; restarting').length - 1;
  return `${poisoned()?.state} after ${seconds} s and ${poisoned()?.attempts} attempts; run died ${runs} times; ${scene.stood()}`;
}

const faulty = Object.entries(DEEDS).map(([name, { deed, state = 'dead' }]): Fault => ({
  numbers: [Number(/^F(\d+)/.exec(name)?.[1])],
  what: `a handler ${name.slice(5)}`,
  produce: () => stage({ handlers: { culprit: culprit(deed), record: RECORD } }, (scene) => poison(scene, state)),
}));

/** A handler that fails until the file `fixed` exists. */
const FAILING = `
  import { existsSync } from 'node:fs';
  import record from './_record.ts';
  export default { ...record, name: 'record', retry: { attempts: 1 }, laneHoldMs: 0,
    handle(event, ctx) { if (!existsSync('fixed')) throw new Error('not fixed'); return record.handle(event, ctx); } };`;

export const handlers: Fault[] = [
  ...faulty,
  {
    numbers: [28],
    what: 'a handler file is half written when SIGHUP comes, run is killed, and the file is fixed later',
    produce: () =>
      stage({}, async (scene) => {
        const { kit } = scene;
        scene.load(50);
        await scene.acknowledge(20);
        kit.addHandler('record', RECORD.slice(0, 200));
        kit.signal('SIGHUP');
        await until(() => kit.output().includes('the old handlers keep running'));
        const pid = await kit.alive('run');
        process.kill(pid, 'SIGKILL');
        await kit.alive('run', pid);
        await scene.acknowledge(20);
        kit.addHandler('record', RECORD);
        kit.signal('SIGHUP');
        return 'the old ones went on; after the kill, deliveries were stored, and the tasks waited for their file; once fixed, all were handled';
      }),
  },
  {
    numbers: [28],
    what: 'a handler file that cannot be loaded at the first start',
    produce: () =>
      stage({ handlers: { record: RECORD, broken: 'export default {' }, starts: false }, async (scene) => {
        const { kit } = scene;
        await kit.start().catch(() => {});
        const code = await kit.exited();
        scene.holds(code === 78 && kit.output().includes('broken.ts'), `it ended with ${code}`);
        kit.addHandler('broken', 'export default { on: "*", handle() {} };');
        await kit.start();
        await scene.send();
        return `refused with ${code}, which names the file`;
      }),
  },
  {
    numbers: [30],
    what: '2,000 dead letters are retried by the page while deliveries come and run is killed',
    produce: () =>
      stage({ handlers: { _record: RECORD, record: FAILING } }, async (scene) => {
        const { kit } = scene;
        const count = (state: string): number =>
          kit.query<{ value: number }>('select value from counters where name = ?', `tasks.${state}`)[0]?.value ?? 0;
        scene.load(200);
        await scene.acknowledge(2_000);
        const many = await scene.rest();
        scene.holds(await eventually(() => count('dead') === many, 60_000), `${count('dead')} dead letters`);
        writeFileSync(join(kit.folder, 'fixed'), '');
        scene.load(50);
        // `keep` serves the ops port.
        await kit.alive('keep');
        const began = performance.now();
        const { status } = await ask(
          kit.opsPort,
          '/api/jobs',
          'POST',
          JSON.stringify({ action: 'retry', filter: { state: 'dead' } }),
        );
        scene.holds(status >= 200 && status < 300, `the job is refused with ${status}`);
        await eventually(() => count('done') > many / 10);
        process.kill(await kit.alive('run'), 'SIGKILL');
        scene.holds(
          await eventually(() => count('dead') === 0 && count('done') >= many, 90_000),
          `${count('dead')} are still dead`,
        );
        await scene.rest();
        return `${many} done again after ${((performance.now() - began) / 1000).toFixed(1)} s, a kill of run between; ${scene.stood()}`;
      }),
  },
];
