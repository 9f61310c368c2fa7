// SIGKILL of each process at every system call that changes something outside the process. Each call is tried in a
// round of its own.
import { createRandom } from '../../../src/tools/random.ts';
import { until } from '../../system/kit.ts';
import type { Options, Row } from '../report.ts';
import { timedStart, tooSlow } from './ready.ts';
import { beginStory, type Story } from './story.ts';
import { attach, childOf, type Point, type Tracer } from './strace.ts';

type Role = 'receive' | 'run' | 'keep';
const ROLES: Role[] = ['receive', 'run', 'keep'];
/** In the short form, each process is killed SAMPLE times, with at most TRIES tries. */
const SAMPLE = 2;
const TRIES = 12;
/** Store and account are replaced after this many rounds, because an account's calls per minute are limited. */
const ROUNDS = 25;
/** Stops after this many violations, because each can take half a minute. */
const ENOUGH = 20;

export async function kills({ seed, short, progress }: Options): Promise<Row[]> {
  const random = createRandom(seed);
  let story = await beginStory(seed);
  let rounds = 0;
  try {
    const { tracers } = await play(story, ROLES);
    const rows: Row[] = [];
    for (const [n, role] of ROLES.entries()) rows.push(await killsOf(role, tracers[n]?.calls() ?? []));
    return rows;
  } finally {
    await story.close();
  }

  async function killsOf(role: Role, points: Point[]): Promise<Row> {
    const chosen = short
      ? early(points)
          .toSorted(() => random.next() - 0.5)
          .slice(0, TRIES)
      : points;
    const violations: string[] = [];
    let [tried, killed, slowest] = [0, 0, 0];
    for (const point of chosen) {
      if (violations.length >= ENOUGH || (short && killed >= SAMPLE)) break;
      const found: string[] = [];
      try {
        const round = await play(story, [role], point);
        if (round.killed) killed++;
        slowest = Math.max(slowest, round.readyMs);
      } catch (error) {
        found.push(String(error));
      }
      found.push(...story.violations());
      violations.push(...found.map((one) => `at its ${point.nth}. ${point.call}: ${one}`));
      // A broken store stays broken, so the next kill needs a new store.
      if (found.length > 0 || ++rounds % ROUNDS === 0) await anew();
      if (++tried % ROUNDS === 0)
        progress(`${role}: ${tried} of ${chosen.length} points, ${killed} kills, ${violations.length} violations`);
    }
    violations.push(...tooSlow(slowest, short));
    // A round may end without a kill, because rounds differ in their calls and may not contain the chosen call.
    if (killed < (short ? SAMPLE : tried / 2)) violations.push(`only ${killed} of ${tried} points were met`);
    return {
      what: `SIGKILL in ${role} as it writes, syncs, truncates, sends`,
      seen: `${tried} of ${points.length} points, ${killed} kills, ready after ${Math.round(slowest)} ms at most`,
      violations,
    };
  }

  async function anew(): Promise<void> {
    await story.close();
    story = await beginStory(seed + rounds);
  }
}

/** The first half of the recorded calls of each name, because every round is expected to make that many. */
function early(points: Point[]): Point[] {
  const most = new Map(points.map(({ call, nth }) => [call, nth]));
  return points.filter(({ call, nth }) => nth <= (most.get(call) ?? 0) / 2);
}

/**
 * Plays one round: a start, deliveries, and a kill at the system call `point`. If the main process survives, all events
 * must be handled in this round. Otherwise the next round handles what is left.
 */
async function play(
  story: Story,
  roles: Role[],
  point?: Point,
): Promise<{ killed: boolean; readyMs: number; tracers: Tracer[] }> {
  const { kit } = story;
  let over = false;
  story.miss();
  const started = timedStart(kit).catch((error: unknown) => String(error));
  void kit.exited().then(() => (over = true));
  const main = kit.main() ?? 0;
  const trace = async (role: Role): Promise<Tracer> =>
    attach(role === 'receive' ? main : await childOf(main, `${role}/main.ts`), point);
  const tracers = await Promise.all(roles.map(trace));
  const dead = (): boolean => tracers.some((tracer) => tracer.ended());
  const ready = await started;
  if (typeof ready === 'number') {
    await story.deliver();
    await until(() => over || dead() || story.isSettled());
  } else await until(dead);
  const killed = tracers.some((tracer) => tracer.killed());
  if (typeof ready === 'string' && !killed) throw new Error(ready);
  // If the main process lives, it restarts the child that was killed, and all events must be handled.
  if (!over) await story.settled(() => over);
  if (!over) await kit.killAll();
  await kit.exited();
  await until(() => tracers.every((tracer) => tracer.ended()));
  return { killed, readyMs: typeof ready === 'number' ? ready : 0, tracers };
}
