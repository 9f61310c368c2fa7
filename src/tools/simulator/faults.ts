// Faults of the next calls, as a person or a test asks for them (contract 7).
import { Lost, Refusal, STATUSES } from './refusal.ts';

/**
 * A number is the status of the answer. From 500 on, the call is still carried out: the uncertain outcome of contract 7.3.
 * `undone`: 503, and the call is not carried out. `lost`: the call is carried out, but its answer does not arrive. `reset`:
 * replay says that the cursor has expired.
 */
export interface Fault {
  what: number | 'undone' | 'lost' | 'reset';
  /** Default: the usual reason for this status. */
  reason?: string | undefined;
  /** The name of the call. Default: whichever call comes next. */
  call?: string | undefined;
  times?: number;
}

export const FAULTS = [...STATUSES, 'undone', 'lost', 'reset'];
export type Faults = ReturnType<typeof createFaults>;

export function createFaults() {
  const queue: Required<Fault>[] = [];
  return {
    add: (fault: Fault): void => void queue.push({ reason: undefined, call: undefined, times: 1, ...fault }),
    /** The fault of this call. Throws Refusal or Lost if the call is not carried out. `reads`: the call changes nothing. */
    take(name: string, reads: boolean): Fault | undefined {
      const place = queue.findIndex(({ call = name }) => call === name);
      const fault = queue[place];
      if (fault && --fault.times === 0) queue.splice(place, 1);
      const { what, reason } = fault ?? {};
      if (what === 'undone') throw new Refusal(503, reason ?? 'OUTCOME_UNCERTAIN');
      if (typeof what === 'number' && (what < 500 || reads)) throw new Refusal(what, reason);
      if (what === 'lost' && reads) throw new Lost();
      return fault;
    },
  };
}

/** Spoils the answer to a call that was carried out. Throws Refusal or Lost. */
export function spoiled({ what, reason }: Fault, answer: object): object {
  if (what === 'lost') throw new Lost();
  if (what === 'reset') return { ...answer, events: [], has_more: false, reset_required: true };
  throw new Refusal(Number(what), reason);
}
