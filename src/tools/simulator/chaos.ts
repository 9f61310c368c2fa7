// Faults drawn at random from a seed: how each event is delivered, and how each call is answered. A person or a test can
// also ask for a fault of the next call, or of the next call of an operation or route.
import { FAULTS, type Fault, type FaultName } from './faults.ts';
import { createRandom } from '../random.ts';
import type { DeliverOptions } from './webhook.ts';

/** Shares from 0 to 1. `api` is a share of the calls, the others are shares of the events. */
export interface Shares {
  /** The event is never delivered. */
  dropped: number;
  /** The event is delivered twice, unless it is dropped. */
  doubled: number;
  /** The delivery is up to two seconds late, so that later events overtake it. */
  shuffled: number;
  /** The delivery is up to a minute late. */
  delayed: number;
  /** A sender without the secret also delivers the event. */
  forged: number;
  /** The data of the event has neither session nor time, if the contract does not show the fields of its type. */
  bare: number;
  /** The call is answered with a fault. */
  api: number;
}

export interface Chaos {
  /** The deliveries of the next event. Empty: the event is dropped. */
  ways(): Pick<DeliverOptions, 'forged' | 'afterMs'>[];
  /** Whether the next event is bare. */
  bare(): boolean;
  /** The fault for a call of this operation or route. Undefined: the true answer is sent. */
  fault(call?: string): Fault | undefined;
  /** Turns the random faults on or off. */
  turn(on: boolean): void;
  isOn(): boolean;
  /** Queues a fault for the next call, or for the next call of this operation or route, even if chaos is off. */
  next(fault: FaultName | Fault, call?: string): void;
  /** Every call gets this fault, until `always` is called without a fault. A test can pass its own fault. */
  always(fault?: FaultName | Fault): void;
}

export const CALM: Shares = { dropped: 0, doubled: 0, shuffled: 0, delayed: 0, forged: 0, bare: 0, api: 0 };
export const ROUGH: Shares = {
  dropped: 0.05,
  doubled: 0.1,
  shuffled: 0.3,
  delayed: 0.02,
  forged: 0.05,
  bare: 0.1,
  api: 0.1,
};
const SHUFFLED_MS = 2_000;
const DELAYED_MS = 60_000;
/** These faults send so much data that they are never drawn at random. */
const BY_NAME_ONLY = new Set<FaultName>(['flood', 'gzip']);

const faultOf = (fault: FaultName | Fault): Fault => (typeof fault === 'string' ? FAULTS[fault] : fault);

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
  // Deliveries, calls and events have a generator each, so that the number of one does not change the others.
  const ofDeliveries = createRandom(seed);
  const ofCalls = createRandom(seed + 1);
  const ofEvents = createRandom(seed + 2);
  const drawable = (Object.keys(FAULTS) as FaultName[]).filter((name) => !BY_NAME_ONLY.has(name));
  const queue: { fault: Fault; call: string | undefined }[] = [];
  let every: Fault | undefined;

  return {
    ways() {
      if (!on) return [{}];
      // Draws every share for every event, so that changing one share does not shift the draws of the others.
      const draw = (share: number): boolean => ofDeliveries.next() < share;
      const [dropped, doubled, forged] = [draw(all.dropped), draw(all.doubled), draw(all.forged)];
      const [shuffled, delayed, late] = [draw(all.shuffled), draw(all.delayed), ofDeliveries.next()];
      const afterMs = late * (delayed ? DELAYED_MS : shuffled ? SHUFFLED_MS : 0);
      const own = dropped ? [] : doubled ? [{ afterMs }, { afterMs: 0 }] : [{ afterMs }];
      return forged ? [...own, { forged, afterMs: 0 }] : own;
    },
    bare: () => on && ofEvents.next() < all.bare,
    fault(call) {
      const place = queue.findIndex((one) => one.call === undefined || one.call === call);
      const asked = place === -1 ? every : queue.splice(place, 1)[0]?.fault;
      if (asked || !on || ofCalls.next() >= all.api) return asked;
      return FAULTS[drawable[ofCalls.below(drawable.length)] ?? '503'];
    },
    turn: (next) => void (on = next),
    isOn: () => on,
    next: (fault, call) => void queue.push({ fault: faultOf(fault), call }),
    always: (fault) => void (every = fault && faultOf(fault)),
  };
}
