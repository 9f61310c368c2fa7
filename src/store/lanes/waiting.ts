// A waiting task: the fields of it that the lanes and a claim need.
export interface Waiting {
  id: number;
  event: number;
  handler: number;
  lane: number | null;
  /** The task waits for no other task: it has no lane, or it kept failing and has stepped aside. */
  alone: boolean;
  cursor: bigint | null;
  strict: boolean;
  releaseAt: number;
  dueAt: number;
  holdUntil: number | null;
  /** The id of the rerun; 0: the task was made when its event arrived. */
  rerun: number;
  isolated: boolean;
  attempts: number;
  deferred: number;
  error: string | null;
}
