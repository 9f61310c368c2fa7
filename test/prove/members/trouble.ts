// Random deaths, freezes and cuts of instances. At most two are in trouble at a time, so that one can serve.
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../../src/tools/random.ts';
import { childOf, familyOf, signalAll } from '../../postgres/members.ts';
import { until } from '../../system/kit.ts';
import type { Member, Scene } from './scene.ts';

const PAUSE_MS = 1_500;
const LONGEST_MS = 6_000;
/** Milliseconds of the way there and back, for a slow network. */
const SLOW_MS = 200;

/** An instance was in trouble from one moment to another, Unix milliseconds. `main`: the pid of its main process. */
export interface Trouble {
  kind: string;
  main: number;
  from: number;
  to: number;
}

type Action = (member: Member, ms: number) => Promise<void>;

const FILES = { main: '/main.ts', run: 'run/main.ts', keep: 'keep/main.ts' };

const stopped =
  (pidsOf: (member: Member) => number[]): Action =>
  async (member, ms) => {
    const pids = pidsOf(member);
    signalAll(pids, 'SIGSTOP');
    await sleep(ms);
    signalAll(pids, 'SIGCONT');
  };

const disturbed =
  (begin: (member: Member) => void): Action =>
  async (member, ms) => {
    begin(member);
    await sleep(ms);
    member.proxy.pass();
    member.proxy.delay(0);
  };

const child = ({ kit }: Member, file: string): number[] => [childOf(kit, file) ?? []].flat();

/** Starts the instance again when all its processes have ended. */
async function ended({ kit }: Member, family: number[]): Promise<void> {
  await kit.exited();
  await until(() => family.every((pid) => !existsSync(`/proc/${pid}`)));
  await kit.start();
}

/** The name of each kind of trouble, how often it is chosen, and what it does. */
const KINDS: [string, number, Action][] = [
  [
    'instance killed',
    3,
    async (member) => {
      const family = familyOf(member.kit);
      signalAll(family, 'SIGKILL');
      await ended(member, family);
    },
  ],
  [
    'main killed',
    1,
    async (member) => {
      const family = familyOf(member.kit);
      member.kit.signal('SIGKILL');
      await ended(member, family);
    },
  ],
  [
    'SIGTERM',
    2,
    async (member) => {
      const family = familyOf(member.kit);
      member.kit.signal('SIGTERM');
      await ended(member, family);
    },
  ],
  ['run killed', 1, async (member) => signalAll(child(member, FILES.run), 'SIGKILL')],
  ['keep killed', 1, async (member) => signalAll(child(member, FILES.keep), 'SIGKILL')],
  ['instance stopped', 3, stopped(({ kit }) => familyOf(kit))],
  ['main stopped', 1, stopped(({ kit }) => [kit.main() ?? []].flat())],
  ['run stopped', 1, stopped((member) => child(member, FILES.run))],
  ['network cut', 2, disturbed(({ proxy }) => proxy.cut())],
  ['network silent', 2, disturbed(({ proxy }) => proxy.silence())],
  ['network slow', 1, disturbed(({ proxy }) => proxy.delay(SLOW_MS))],
];

export function createTrouble({ server, members }: Scene, seed: number) {
  const random = createRandom(seed);
  const troubles: Trouble[] = [];
  const underWay = new Map<Member, Promise<void>>();
  const kinds = KINDS.flatMap(([kind, weight, act]) => Array.from({ length: weight }, () => ({ kind, act })));
  let count = 0;

  async function begin(member: Member, kind: string, work: () => Promise<void>): Promise<void> {
    const trouble: Trouble = { kind, main: member.kit.main() ?? 0, from: Date.now(), to: Infinity };
    troubles.push(trouble);
    await work();
    trouble.to = Date.now();
  }

  return {
    troubles,
    /** Begins one more. Resolves after a random pause, in which it may still be under way. */
    async next(): Promise<void> {
      count++;
      const { kind, act } = kinds[random.below(kinds.length)] ?? { kind: '', act: async () => {} };
      const ms = random.next() * LONGEST_MS;
      const first = random.below(members.length);
      if (count % 25 === 0) {
        await server.end('SIGKILL');
        for (const { kit } of members)
          troubles.push({ kind: 'server killed', main: kit.main() ?? 0, from: Date.now(), to: Date.now() + 5_000 });
        await server.start();
      }
      while (underWay.size >= members.length - 1) await Promise.race(underWay.values());
      const member = [...members.slice(first), ...members].find((one) => !underWay.has(one));
      if (member) {
        const work = begin(member, kind, () => act(member, ms)).finally(() => underWay.delete(member));
        underWay.set(member, work);
      }
      await sleep(random.next() * PAUSE_MS);
    },
    async heal(): Promise<void> {
      await Promise.all(underWay.values());
    },
  };
}
