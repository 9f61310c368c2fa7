// F50: the schema in PostgreSQL is missing, of an older or of a newer kit.
import { until } from '../../../system/kit.ts';
import type { Fault } from '../scene.ts';
import { stage } from './scene.ts';

const ROUNDS = 5;

export const schema: Fault[] = [
  {
    numbers: [50],
    what: `two instances start at the same moment on an empty PostgreSQL database, ${ROUNDS} times`,
    produce: () =>
      stage({ instances: 0 }, async (scene) => {
        for (let round = 1; round <= ROUNDS; round++) {
          await Promise.all([scene.add(), scene.add()]);
          const led = scene.kits.filter((kit) => kit.output().includes('this instance leads'));
          await until(async () => (await scene.cluster.leader()) !== undefined);
          scene.holds(led.length <= 1, `${led.length} lead`);
          if (round === ROUNDS) break;
          for (const kit of scene.kits.splice(0)) {
            const code = await kit.stop();
            scene.holds(code === 0, `it ended with ${code}`);
            await kit.remove();
          }
          await scene.admin('drop schema kit cascade');
        }
        scene.load(20);
        await scene.acknowledge(50);
        await scene.rest();
        return `${2 * ROUNDS} starts, one schema and one leader each time`;
      }),
  },
  {
    numbers: [50],
    what: 'the schema in PostgreSQL is of a newer kit that this one can, and cannot, work with; and of an older one',
    produce: () =>
      stage({ instances: 0 }, async (scene) => {
        await scene.admin(`create schema kit authorization kit`);
        await scene.admin(`create table kit.version (version int not null, oldest int not null)`);
        await scene.admin(`alter table kit.version owner to kit; insert into kit.version values (0, 0)`);
        const kit = await scene.add();
        scene.load(20);
        await scene.acknowledge(20);
        await scene.rest();
        await scene.admin('update kit.version set version = 99, oldest = 99');
        const code = await kit.exited();
        scene.holds(code === 78, `the instance that was connected ended with ${code}`);
        const refused = await scene.refuses(/newer kit \(99\): update this clone/);
        await scene.admin('update kit.version set oldest = 1');
        await kit.start();
        scene.load(20);
        await scene.acknowledge(20);
        await scene.rest();
        return refused;
      }),
  },
];
