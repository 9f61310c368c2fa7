// F50: the server is killed, and the network between the kit and the server fails.
import { hasServer } from '../../../postgres/server.ts';
import { Lacking, type Fault } from '../scene.ts';
import { tested } from '../tools.ts';
import { outage } from './outage.ts';
import { stage } from './scene.ts';

export const network: Fault[] = [
  {
    numbers: [50],
    what: 'the PostgreSQL server is killed three times under load (test/postgres/faults.system.test.ts)',
    async produce() {
      if (!hasServer()) throw new Lacking('a PostgreSQL server: npm run test:postgres installs it');
      const { passed, failed } = tested(
        'test/postgres/faults.system.test.ts',
        'postgres-system',
        'killed and restarted',
      );
      return {
        seen: `${passed} passed: no answer but 204, each event stored once and handled once`,
        violations: failed > 0 || passed === 0 ? [`${failed} failed`] : [],
      };
    },
  },
  {
    numbers: [50],
    what: 'connections to the PostgreSQL server are cut, and refused for 10 s',
    produce: () =>
      stage({ proxied: true, allowed: [503] }, (scene) =>
        outage(scene, { begin: async () => scene.proxy().cut(), end: async () => scene.proxy().pass() }),
      ),
  },
  {
    numbers: [50],
    what: 'connections to the PostgreSQL server are silent for 20 s (half-open)',
    produce: () =>
      stage({ proxied: true, allowed: [503] }, (scene) =>
        outage(scene, {
          ms: 20_000,
          begin: async () => scene.proxy().silence(),
          end: async () => scene.proxy().pass(),
        }),
      ),
  },
  {
    numbers: [50],
    what: 'each packet to and from the PostgreSQL server takes 50 ms',
    produce: () =>
      stage({ proxied: true }, async (scene) => {
        scene.proxy().delay(50);
        scene.load(10);
        await scene.acknowledge(15);
        await scene.rest();
        return 'slow, and nothing else';
      }),
  },
];
