// Finds an event by its time of receipt.
import type { Session } from '../session.ts';

export function createByTime(session: Session) {
  const newest = session.value<number>('select coalesce(max(seq), 0) from events');
  const lastBefore = session.value<number>(
    'select seq from events where received_at < ? order by received_at desc, seq desc limit 1',
  );
  return {
    /** The number of the newest event. 0: there is none. */
    newest: async (): Promise<number> => (await newest.get()) ?? 0,
    /** The number of the last event received before a time, Unix milliseconds. 0: there is none. */
    lastBefore: async (time: number): Promise<number> => (await lastBefore.get(time)) ?? 0,
  };
}
