// F18 to F20: the kit is stopped, restarted many times, and killed, under load.
import { spawnSync } from 'node:child_process';
import { until } from '../../system/kit.ts';
import { Lacking, stage, type Fault } from './scene.ts';
import { tested } from './tools.ts';

export const ends: Fault[] = [
  {
    numbers: [18],
    what: 'SIGTERM at 200 deliveries a second',
    short: true,
    produce: () =>
      stage({ allowed: [0] }, async (scene) => {
        const { kit } = scene;
        scene.load(200);
        await scene.acknowledge(100);
        const began = performance.now();
        kit.signal('SIGTERM');
        await until(() => kit.output().includes('stopping'));
        const ready = await scene.probe();
        const code = await kit.exited();
        const ms = Math.round(performance.now() - began);
        await scene.rest();
        scene.holds(code === 0, `it ended with ${code}`);
        scene.holds(ms < 9_000, `it took ${ms} ms`);
        scene.holds([0, 503].includes(ready), `readiness was ${ready} while stopping`);
        await kit.start();
        return `readiness ${ready} at once, ended after ${ms} ms; deliveries were refused only while the port was closed`;
      }),
  },
  {
    numbers: [19],
    what: '30 restarts under 50 deliveries a second behind the proxy of compose.yaml (test/system/proxy.test.ts)',
    async produce() {
      if (spawnSync('caddy', ['version']).status !== 0) throw new Lacking('caddy (Debian: caddy)');
      const { passed, failed } = tested('test/system/proxy.test.ts', 'system', 'stopped and started', {
        PROXY_RESTARTS: '30',
      });
      return {
        seen: `${passed} passed: each delivery got its 204, and is one event`,
        violations: failed > 0 || passed === 0 ? [`${failed} failed`] : [],
      };
    },
  },
  ...(['receive', 'run', 'keep'] as const).map((role): Fault => ({
    numbers: [20],
    what: `${role} is killed as the kernel does when memory is short (SIGKILL), under load`,
    produce: () =>
      stage({ allowed: role === 'receive' ? [0] : [] }, async (scene) => {
        const { kit } = scene;
        await kit.alive(role);
        scene.load(200);
        await scene.acknowledge(100);
        const before = await kit.alive(role);
        process.kill(before, 'SIGKILL');
        if (role === 'receive') {
          await kit.exited();
          await scene.rest();
          await kit.start();
          return 'started again by hand, as a service manager does';
        }
        await kit.alive(role, before);
        await scene.acknowledge(50);
        return 'started again by the main process';
      }),
  })),
];
