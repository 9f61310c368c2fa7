// Hides lane names and error messages from readers: people with OPS_READ_TOKEN. Both may name a person, because a lane
// is often named after a conversation, and an error may quote a message.
import type { ReadStore } from '../store/read.ts';

const SESSION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;
/** A reader sees the class of an error and its line in the handler, but not the message between them. */
const KIND = /^\w{0,50}(Error|Exception|Timeout)(?=: )/;
const PLACE = / \([^()\s]+:[\d#]+\)$/;

/** The reads that return errors or lanes. */
export type PersonalReads = Pick<ReadStore, 'event' | 'tasks' | 'groups' | 'waitingLanes' | 'handler'>;

/** Returns the same reads, but their answers hide error messages and lane names. */
export function redacted(store: PersonalReads): PersonalReads {
  return {
    event: async (...asked) => hide(await store.event(...asked)),
    tasks: async (...asked) => hide(await store.tasks(...asked)),
    groups: async (...asked) => hide(await store.groups(...asked)),
    waitingLanes: async (...asked) => hide(await store.waitingLanes(...asked)),
    handler: async (...asked) => hide(await store.handler(...asked)),
  };
}

/** Hides the fields `error`, `lane` and `pattern` at any depth, so that no new part of an answer shows one. */
function hide<Shown>(shown: Shown): Shown {
  if (typeof shown !== 'object' || shown === null) return shown;
  if (Array.isArray(shown)) return shown.map(hide) as Shown;
  const { error, lane } = shown as { error?: string | null; lane?: string | null };
  const hidden = { error: error && kindOf(error), lane: lane && laneOf(lane), pattern: kindOf(error ?? '') };
  return Object.fromEntries(
    Object.entries(shown).map(([name, value]) => [
      name,
      name in hidden ? hidden[name as keyof typeof hidden] : hide(value),
    ]),
  ) as Shown;
}

function kindOf(error: string): string {
  return `${KIND.exec(error)?.[0] ?? ''} …${PLACE.exec(error)?.[0] ?? ''}`.trim();
}

/** Keeps the session at the beginning of the lane's name, and hides the rest. */
function laneOf(name: string): string {
  const session = SESSION.exec(name)?.[0] ?? '';
  return session === name ? name : `${session}/…`;
}
