// F14 to F17: the wall clock. Every process of the kit loads inside.ts, which moves Date.now. Monotonic time goes on
// unchanged, as when the clock of a machine is set.
import { liveThrough, SERVICES, STEPS } from '../../flow/clocks.ts';
import { RECORD } from '../../system/kit.ts';
import { eventually, stage, type Fault } from './scene.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const skewed = (number: number, minutes: number): Fault => ({
  numbers: [number],
  what: `the machine's clock is ${minutes > 0 ? '+' : ''}${minutes} min off, and then right again`,
  produce: () =>
    stage({ allowed: [401] }, async (scene) => {
      const { kit } = scene;
      await scene.send();
      await scene.setClock(minutes * MINUTE_MS);
      // Alarms count only what follows keep's first snapshot of the counters, so the test waits for that snapshot.
      const looked = Date.now() + minutes * MINUTE_MS - 1_000;
      const sql = `select json_extract(value, '$[0].at') as at from state where name = 'snapshots'`;
      const at = (): number => scene.kit.query<{ at: number }>(sql)[0]?.at ?? 0;
      await eventually(() => at() > 0 && at() < looked + 10_000);
      for (let n = 0; n < 4; n++)
        scene.holds((await scene.send()) === 401, 'a delivery outside the window is accepted');
      const raised = await eventually(async () => namesOf(await scene.status()).includes('clock_skew'));
      const { failureRun, alarms } = await scene.status();
      scene.holds(raised, 'the alarm clock_skew is not raised');
      scene.holds(failureRun === 4, `the failure run is ${failureRun}, not 4`);
      await scene.setClock(0);
      scene.holds((await scene.send()) === 204, 'refused although the clock is right again');
      scene.holds(kit.output().includes('clock_skew'), 'the log does not name clock_skew');
      return `4 refused, failure run 4, alarms ${alarms.map(({ name }) => name).join(', ')}; then accepted`;
    }),
});

function namesOf({ alarms }: { alarms: { name: string }[] }): string[] {
  return alarms.map(({ name }) => name);
}

/** The handler's first attempt fails, so that its task waits for the second. */
const SECOND_TRY = RECORD.replace(
  '{ attempts: 5, firstMs: 10, maxMs: 50 }',
  '{ attempts: 5, firstMs: 2_000, maxMs: 2_000 }',
).replace(
  'async handle(event, ctx) {',
  `async handle(event, ctx) {
    if (ctx.attempt === 1) throw new Error('the first time');`,
);

const jump = (what: string, steps: number[], short = false): Fault => ({
  numbers: [16],
  what: `the clock jumps ${what} while tasks wait for their window and for their second attempt`,
  ...(short && { short: true }),
  produce: () =>
    stage({ handlers: { record: SECOND_TRY } }, async (scene) => {
      let ahead = 0;
      const target = { port: scene.kit.port, now: () => Date.now() + ahead };
      for (const step of steps) {
        scene.load(50, target);
        await scene.acknowledge(40);
        await scene.rest();
        ahead += step;
        await scene.setClock(ahead);
      }
      await scene.send(target);
      const began = performance.now();
      const open = (): number =>
        scene.kit.query<{ n: number }>(`select count(*) as n from tasks where state <> 'done'`)[0]?.n ?? 0;
      const done = await eventually(() => open() === 0, 20_000);
      scene.holds(done, `${open()} tasks still wait after 20 s`);
      return `all completed ${Math.round((performance.now() - began) / 1000)} s after the last jump`;
    }),
});

const atTime = (what: string, time: number, zone: string): Fault => ({
  numbers: [17],
  what,
  produce: () =>
    stage({ env: { TZ: zone }, starts: false }, async (scene) => {
      await scene.setClock(time - 30_000 - Date.now());
      await scene.kit.start();
      const ahead = time - 2_000 - Date.now();
      await scene.setClock(ahead);
      const target = { port: scene.kit.port, now: () => Date.now() + ahead };
      scene.load(50, target);
      await scene.acknowledge(200);
      await scene.rest();
      const [row] = scene.kit.query<{ first: number; last: number }>(
        'select min(received_at) as first, max(received_at) as last from events',
      );
      scene.holds((row?.first ?? 0) < time && (row?.last ?? 0) > time, 'the moment was not passed');
      return `received from ${new Date(row?.first ?? 0).toISOString()} to ${new Date(row?.last ?? 0).toISOString()}`;
    }),
});

/** All combinations (cells) of clock steps and service clocks. They run in this process, about a second each. */
const matrix: Fault = {
  numbers: [16],
  what: `the clock matrix beside ${SERVICES.length} clocks of the service: steps of an hour, a day and sixty, both ways`,
  async produce(seed) {
    const violations: string[] = [];
    let cells = 0;
    for (const up of [true, false])
      for (const key of [true, false])
        for (const service of SERVICES)
          for (const step of STEPS) {
            // Left out: without a key, an event whose deliveries are always outside the signature window never arrives.
            if (!key && Math.abs(service) > 300_000) continue;
            const found = await liveThrough({ step, up, service, key, seed: seed + cells++ }).catch(String);
            const where = `step ${step}, ${up ? 'up' : 'between starts'}, service ${service}, ${key ? 'key' : 'no key'}`;
            violations.push(...[found].flat().map((one) => `${where}: ${one}`));
          }
    return { seen: `${cells} cells: each event stored once, handled once by each handler, in order`, violations };
  },
};

export const clock: Fault[] = [
  matrix,
  skewed(14, 6),
  skewed(15, -6),
  jump('an hour ahead', [HOUR_MS]),
  jump('an hour back', [-HOUR_MS], true),
  jump('an hour ahead and back again', [HOUR_MS, -HOUR_MS]),
  atTime('the seconds around 2038-01-19T03:14:08Z (2^31)', 2 ** 31 * 1000, 'UTC'),
  atTime('the hour that is skipped in Sao Paulo, 2018-11-04', Date.UTC(2018, 10, 4, 3), 'America/Sao_Paulo'),
  atTime('the leap second at the end of 2016', Date.UTC(2017, 0, 1), 'UTC'),
];
