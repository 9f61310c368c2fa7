// What goes wrong on the way, drawn by the seed: which deliveries are made of some events, and in which order.
import type { SimulatedEvent } from './history.ts';
import type { Random } from './random.ts';

/** Shares are from 0 to 1, of the events. */
export interface Plan {
  /** An event may be overtaken by those that follow within so many places. */
  window?: number;
  /** Never delivered. */
  dropped?: number;
  /** Delivered a second time; never one that is dropped. */
  doubled?: number;
  /** Delivered by a stranger as well. */
  forged?: number;
  /** Deliveries under way at once. */
  concurrency?: number;
}

export interface Planned {
  event: SimulatedEvent;
  way: 'deliver' | 'drop' | 'forge';
}

export function drawPlan(events: SimulatedEvent[], plan: Plan, random: Random): Planned[] {
  const { window = 0, dropped = 0, doubled = 0, forged = 0 } = plan;

  function waysOf(): Planned['way'][] {
    // All three are drawn for every event: a share that changes leaves the others' choices as they are.
    const [isDropped, isDoubled, isForged] = [dropped, doubled, forged].map((share) => random.next() < share);
    const own: Planned['way'][] = isDropped ? ['drop'] : isDoubled ? ['deliver', 'deliver'] : ['deliver'];
    return isForged ? [...own, 'forge'] : own;
  }

  return events
    .flatMap((event, index) => waysOf().map((way) => ({ event, way, place: index + random.next() * window })))
    .toSorted((a, b) => a.place - b.place);
}
