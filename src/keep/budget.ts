// How many calls reconciliation may make: a bucket that fills at the configured rate. The account's 120 calls a minute
// are shared with the user's own (contract 8).
import type { Clock } from '../clock.ts';

export interface Budget {
  /** Milliseconds until a call may be made; 0 takes it. */
  take(): number;
}

export function createBudget(callsPerMinute: number, clock: Clock): Budget {
  let calls = callsPerMinute;
  let at = clock.now();
  return {
    take() {
      const now = clock.now();
      calls = Math.min(callsPerMinute, calls + (Math.max(0, now - at) / 60_000) * callsPerMinute);
      at = now;
      if (calls < 1) return Math.ceil(((1 - calls) / callsPerMinute) * 60_000);
      calls--;
      return 0;
    },
  };
}
