// A fault that makes the store unusable for a while, under load.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kit } from '../../../system/kit.ts';
import { ask, eventually } from '../scene.ts';
import type { Scene } from './scene.ts';

/** Readiness and the alarm follow a fault within this time. */
const TOLD_MS = 5_000;
const BACK_MS = 15_000;

interface Outage {
  begin: () => Promise<unknown>;
  end: () => Promise<unknown>;
  /** How long it lasts, milliseconds. */
  ms?: number;
  /** What the alarm must say. */
  words?: RegExp;
  /** Deliveries a second. */
  rate?: number;
}

/** Instances say within seconds that the store is unusable, and come back by themselves. Returns what was seen. */
export async function outage(scene: Scene, { begin, end, ms = 10_000, words = /./, rate = 10 }: Outage) {
  const { kits } = scene;
  scene.load(rate);
  await scene.acknowledge(2 * rate);
  const alarms = kits.map(alarmsOf);
  await begin();
  const began = performance.now();
  const seen = await Promise.all(kits.map((kit, n) => notices(scene, kit, () => alarms[n]?.() ?? [])));
  await sleep(began + ms - performance.now());
  for (const told of alarms) {
    const known = told().some((line) => words.test(line));
    scene.holds(known, `the alarm does not say ${words.source}: ${told().at(-1)?.slice(0, 400)}`);
  }
  await end();
  const ended = performance.now();
  const back = await Promise.all(kits.map((kit) => eventually(async () => (await readyOf(kit)) === 200, BACK_MS)));
  scene.holds(!back.includes(false), 'readiness did not come back');
  const ready = `ready ${seconds(ended)} s after the end`;
  await scene.acknowledge(2 * rate);
  const clear = (): boolean => alarms.every((told) => told().some((line) => line.includes('all clear')));
  scene.holds(await eventually(clear, BACK_MS), 'the alarm did not end');
  await scene.rest();
  return [...seen, ready].join(', ');
}

/** Readiness goes down, and the alarm is raised. */
async function notices(scene: Scene, kit: Kit, alarms: () => string[]): Promise<string> {
  const began = performance.now();
  const after = async (holds: () => boolean | Promise<boolean>): Promise<number> =>
    (await eventually(holds, 3 * TOLD_MS)) ? seconds(began) : Infinity;
  const [down, told] = await Promise.all([
    after(async () => (await readyOf(kit)) === 503),
    after(() => alarms().length > 0),
  ]);
  scene.holds(down * 1_000 <= TOLD_MS, `readiness went down after ${down} s`);
  scene.holds(told * 1_000 <= TOLD_MS, `the alarm was raised after ${told} s`);
  return `not ready after ${down} s, alarm after ${told} s`;
}

/** Returns a function that reads the lines of the alarm since now. */
function alarmsOf(kit: Kit): () => string[] {
  const before = kit.output().length;
  const raised = (line: string): boolean => line.includes('"alarm":"store_unwritable"');
  return () => kit.output().slice(before).split('\n').filter(raised);
}

const readyOf = async (kit: Kit): Promise<number> => (await ask(kit.port, '/readyz')).status;
const seconds = (from: number): number => Math.round((performance.now() - from) / 100) / 10;
