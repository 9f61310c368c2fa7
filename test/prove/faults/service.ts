// F31 to F47: a service that refuses, answers falsely, expires cursors or sends no webhooks. Faults of ReplayEvents run
// against the simulator with a simulated clock. The others run beside a whole kit.
import { setTimeout as sleep } from 'node:timers/promises';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fault as ApiFault, FaultName } from '../../../src/tools/simulator/faults.ts';
import { BUDGET, STATUS_WORDS, live, pageOf, refused } from '../../flow/faulty-replay.ts';
import { SECRET, until } from '../../system/kit.ts';
import { watermarkOf, withAccount } from './account.ts';
import { eventually, stage, type Fault, type Found } from './scene.ts';

interface Expected {
  words: RegExp;
  /** True: reconciliation resumes without help when the fault is over. */
  unaided?: boolean;
  /** True: for a while, events below the watermark may be missing. */
  passes?: boolean;
  gaps?: number;
}

async function tell(fault: FaultName | ApiFault | 'late', expected: Expected): Promise<Found> {
  const { words, unaided = true, passes = false, gaps = 0 } = expected;
  const told = await live(fault);
  const violations: string[] = [];
  const holds = (all: boolean, otherwise: string): void => void (all || violations.push(otherwise));
  holds(words.test(told.words.join('\n')), 'status does not name it');
  holds(told.unaided === unaided, unaided ? 'it does not resume without help' : 'it resumes although nobody asked');
  holds(passes || told.passed.length === 0, `${told.passed.length} events are below the watermark and not stored`);
  holds(told.missing.length === 0, `${told.missing.length} events are missing in the end`);
  holds(told.most <= BUDGET, `${told.most} calls in a minute`);
  holds(told.gaps.length === gaps, `${told.gaps.length} gaps, not ${gaps}`);
  holds(told.status.reconcile.state === 'idle', `it is ${told.status.reconcile.state} in the end`);
  const said = told.words.find((word) => words.test(word)) ?? told.words[0] ?? '';
  return {
    seen: `"${said.slice(0, 110)}"; at most ${told.most} calls a minute, nothing missing in the end`,
    violations,
  };
}

/** The simulator's faults by their number. All others are F35, an answer that the contract does not show. */
const NUMBERS: Record<number, FaultName[]> = {
  32: ['429'],
  33: ['500', '503', '504', 'uncertain-sent', 'uncertain-unsent', 'deadline-unsent'],
  34: ['cursor-invalid'],
  36: ['cut', 'drip', 'flood', 'gzip'],
  37: ['page-stuck'],
  38: ['page-back', 'page-ahead'],
  39: ['page-empty', 'page-end', 'page-short'],
  40: ['items-reversed', 'items-repeated', 'items-old', 'items-many', 'items-no-cursor'],
  41: ['payload-not-json', 'payload-no-key', 'payload-two-keys'],
};
const numberOf = (name: string): number =>
  Number(Object.entries(NUMBERS).find(([, names]) => names.some((one) => one === name))?.[0] ?? 35);

const replayFaults = Object.entries(STATUS_WORDS).map(([name, words]): Fault => ({
  numbers: [numberOf(name)],
  what: `ReplayEvents answers ${name} for ten minutes`,
  produce: () => tell(name as FaultName, { words }),
}));

export const service: Fault[] = [
  ...(
    [
      [401, 'API_AUTH_REVOKED'],
      [403, 'API_KEY_IP_FORBIDDEN'],
    ] as const
  ).map(([status, reason]): Fault => ({
    numbers: [31],
    what: `ReplayEvents answers ${status} ${reason} for ten minutes`,
    produce: () => tell(refused(status, reason), { words: new RegExp(`^stopped.*${status}`, 'm'), unaided: false }),
  })),
  ...replayFaults.toSorted((a, b) => (a.numbers[0] ?? 0) - (b.numbers[0] ?? 0)),
  {
    numbers: [42],
    what: 'reset_required without items for ten minutes, then the cursor is known again',
    produce: () =>
      tell((truth) => pageOf(truth, { events: [], reset_required: true }), {
        words: /the cursor has expired/,
        gaps: 1,
      }),
  },
  {
    numbers: [43, 44],
    what: 'EVENT_TYPES=MessageReceived; half of the events come by replay first, their webhooks later',
    produce: (seed) =>
      withAccount(
        seed,
        { env: { EVENT_TYPES: 'MessageReceived' } },
        async (scene, { simulator, webhook, happen, whole }) => {
          happen(1);
          await watermarkOf(scene);
          webhook.disable();
          happen(50);
          scene.holds(await whole(), 'replay does not bring them');
          webhook.enable();
          await Promise.all(
            simulator.history
              .all()
              .slice(-50)
              .map((event) => webhook.deliver(event)),
          );
          happen(50);
          await whole();
          const known = () =>
            scene.kit.query<{ rows: number; ids: number }>('select count(*) as rows, count(id) as ids from events')[0];
          // Waits for the webhooks of the latest events, because replay may have fetched those events first.
          await eventually(() => known()?.ids === 101);
          const row = known();
          scene.holds(row?.rows === 101 && row.ids === 101, `${row?.rows} rows, ${row?.ids} with an id`);
          const counts = scene.kit.query<{ value: number }>(`select value from counters where name = 'recovered'`);
          return `${counts[0]?.value} recovered; ${row?.rows} rows, all with their id`;
        },
      ),
  },
  {
    numbers: [45],
    what: 'events whose cursor ends in 0 or 5 become visible two minutes late',
    produce: () => tell('late', { words: /became visible late/, passes: true }),
  },
  {
    numbers: [46],
    what: 'the webhook is disabled at the service, and events go on',
    produce: (seed) =>
      withAccount(seed, {}, async (scene, { webhook, happen, whole }) => {
        happen(20);
        await watermarkOf(scene);
        // Waits for all deliveries, because one that arrived after the webhook is disabled would delay the alarm.
        const brought = 'select count(id) as ids from events';
        await eventually(() => scene.kit.query<{ ids: number }>(brought)[0]?.ids === 20);
        // Until a pass has reached the end of history, the kit counts replayed events as history, not as missed.
        await eventually(async () => (await scene.status()).reconcile.lastAt !== null);
        webhook.disable();
        happen(20);
        scene.holds(await whole(), 'replay does not bring them');
        const silent = async (): Promise<boolean> =>
          (await scene.status()).alarms.some(({ name }) => name === 'webhook_silent');
        // The alarm waits three minutes for the service's first retries. Setting the clock does not shorten that time,
        // so the limit here is longer.
        const raised = await eventually(silent, 240_000);
        scene.holds(raised, 'the alarm webhook_silent is not raised');
        webhook.enable();
        happen(20);
        return `webhook_silent raised, all fetched by replay, all clear after: ${await eventually(async () => !(await silent()))}`;
      }),
  },
  {
    numbers: [47],
    what: 'the secret is rotated with grace (both configured), then at once without the kit knowing it',
    produce: () => {
      const [next, last] = ['whsec_of_the_next_secret_0000', 'whsec_of_the_last_secret_0000'];
      const env = { WEBHOOK_SECRET: '', WEBHOOK_SECRET_FILE: 'secret' };
      return stage({ env, starts: false, allowed: [401] }, async (scene) => {
        const { kit } = scene;
        const secrets = async (...list: string[]): Promise<void> => {
          writeFileSync(join(kit.folder, 'secret'), list.join(','));
          if (kit.output() === '') return kit.start();
          const before = kit.output().split('secrets and handlers reloaded').length;
          kit.signal('SIGHUP');
          await until(() => kit.output().split('secrets and handlers reloaded').length > before);
        };
        const signed = async (by: string[], count: number): Promise<Set<number>> =>
          new Set(await Promise.all(Array.from({ length: count }, () => scene.send(kit, undefined, by))));
        await secrets(SECRET);
        await signed([SECRET], 20);
        await secrets(next, SECRET);
        await signed([next, SECRET], 20);
        await secrets(next);
        scene.holds((await signed([next], 20)).has(204), 'refused although signed with the new secret');
        scene.holds(!scene.statuses.has(401), 'a rotation with grace has cost a delivery');
        const lost = await signed([last], 15);
        scene.holds(lost.has(401), 'accepted although signed with an unknown secret');
        const raised = await eventually(
          async () => (await scene.status()).alarms.some(({ name }) => name === 'secret_mismatch'),
          60_000,
        );
        scene.holds(raised, 'the alarm secret_mismatch is not raised');
        await secrets(last);
        await sleep(100);
        scene.holds((await signed([last], 4)).has(204), 'refused after the secret is set');
        return 'with grace no loss; without: 15 refused, alarm secret_mismatch; accepted once it is set';
      });
    },
  },
];
