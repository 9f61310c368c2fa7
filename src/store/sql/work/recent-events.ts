// Events whose tasks were just made, kept in memory until they are claimed.
import type { StoredEvent } from '../../work.ts';

/**
 * Tasks are usually claimed soon after they are made, so their event need not be read again. Large events are not kept,
 * which bounds the memory. An event is dropped when its last task is claimed, because long-lived objects cost the
 * garbage collector time.
 */
export function createRecentEvents() {
  const slots: ({ event: StoredEvent; tasks: number } | undefined)[] = Array.from({ length: 4_096 }, () => undefined);
  const find = (seq: number) => {
    const known = slots[seq % slots.length];
    return known?.event.seq === seq ? known : undefined;
  };
  return {
    add(event: StoredEvent): void {
      if ((event.text?.length ?? 0) > 4_096) return;
      slots[event.seq % slots.length] = { event, tasks: 0 };
    },
    /** Call it for each task that was made of the event. */
    await(seq: number): void {
      const known = find(seq);
      if (known) known.tasks++;
    },
    take(seq: number): StoredEvent | undefined {
      const known = find(seq);
      if (known && --known.tasks <= 0) slots[seq % slots.length] = undefined;
      return known?.event;
    },
  };
}
