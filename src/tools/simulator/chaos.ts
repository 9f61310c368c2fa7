// What goes wrong on the way, drawn by a seed: which deliveries are made of an event, and how a call is answered. A test
// may also ask for a fault by its name.
import { FAULTS, type Fault, type FaultName } from './faults.ts';
import { createRandom } from '../../base/random.ts';
import { Refusal } from './refusal.ts';
import type { DeliverOptions } from './webhook.ts';

/** Shares are from 0 to 1: of the events, `api` of the calls. */
export interface Shares {
  /** Never delivered. */
  dropped: number;
  /** Delivered a second time; never one that is dropped. */
  doubled: number;
  /** Overtaken by what follows within two seconds. */
  shuffled: number;
  /** Up to a minute late. */
  delayed: number;
  /** Delivered by a stranger as well. */
  forged: number;
  /** Answered with a fault. */
  api: number;
}

export interface Chaos {
  /** The deliveries to make of one event; none where it is dropped. */
  ways(): Pick<DeliverOptions, 'forged' | 'afterMs'>[];
  /** What happens to this call instead; undefined: nothing. */
  fault(): Fault | undefined;
  /** Draws from now on, or no more. */
  turn(on: boolean): void;
  isOn(): boolean;
  /** The next calls have these faults, in their order, on or off. */
  next(...names: FaultName[]): void;
  /** Every call has this fault, until it is called without one. A test may bring one of its own. */
  always(fault?: FaultName | Fault): void;
  /** The next call is refused like this. */
  failNext(status: number, reason?: string): void;
}

export const CALM: Shares = { dropped: 0, doubled: 0, shuffled: 0, delayed: 0, forged: 0, api: 0 };
export const ROUGH: Shares = { dropped: 0.05, doubled: 0.1, shuffled: 0.3, delayed: 0.02, forged: 0.05, api: 0.1 };
const SHUFFLED_MS = 2_000;
const DELAYED_MS = 60_000;
/** Too heavy to come by chance. */
const BY_NAME_ONLY = new Set<FaultName>(['F36 flood', 'F36 gzip']);

export function createChaos({
  seed,
  shares = ROUGH,
  on = false,
}: {
  seed: number;
  shares?: Partial<Shares>;
  on?: boolean;
}): Chaos {
  const all = { ...CALM, ...shares };
  // Two sources: how often the API is called must not change what becomes of the deliveries.
  const ofDeliveries = createRandom(seed);
  const ofCalls = createRandom(seed + 1);
  const drawable = (Object.keys(FAULTS) as FaultName[]).filter((name) => !BY_NAME_ONLY.has(name));
  const queue: Fault[] = [];
  let every: Fault | undefined;

  return {
    ways() {
      if (!on) return [{}];
      // All are drawn for every event: a share that changes leaves the others' choices as they are.
      const draw = (share: number): boolean => ofDeliveries.next() < share;
      const [dropped, doubled, forged] = [draw(all.dropped), draw(all.doubled), draw(all.forged)];
      const [shuffled, delayed, late] = [draw(all.shuffled), draw(all.delayed), ofDeliveries.next()];
      const afterMs = late * (delayed ? DELAYED_MS : shuffled ? SHUFFLED_MS : 0);
      const own = dropped ? [] : doubled ? [{ afterMs }, { afterMs: 0 }] : [{ afterMs }];
      return forged ? [...own, { forged, afterMs: 0 }] : own;
    },
    fault() {
      const asked = queue.shift() ?? every;
      if (asked || !on || ofCalls.next() >= all.api) return asked;
      return FAULTS[drawable[ofCalls.below(drawable.length)] ?? '503'];
    },
    turn: (next) => void (on = next),
    isOn: () => on,
    next: (...names) => void queue.push(...names.map((name) => FAULTS[name])),
    always: (fault) => void (every = typeof fault === 'string' ? FAULTS[fault] : fault),
    failNext(status, reason) {
      queue.push(() => new Refusal(status, reason));
    },
  };
}
