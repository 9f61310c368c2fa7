// How grave an alarm is: people are told again when it rises. An alarm without a line here has one level.
import type { Facts } from './rules.ts';

/** Deliveries in a row that failed; below the first, an earlier run keeps the alarm up. */
const FAILURES = [3, 10, 13, 15];
const BAD_SIGNATURES = [3, 15];
const MB = 1024 * 1024;
/** Each is half of the one before. */
const FREE_MB = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1];
const TROUBLE_MS = 180_000;

/** From 1. */
export function levelOf(name: string, facts: Facts): number {
  return Math.max(1, LEVELS[name]?.(facts) ?? 1);
}

const grew = ({ grown }: Facts, name: string): number => grown[name] ?? 0;

const LEVELS: Record<string, (facts: Facts) => number> = {
  failure_run: ({ status }) => 1 + FAILURES.filter((least) => status.failureRun >= least).length,
  secret_mismatch: ({ status }) => BAD_SIGNATURES.filter((least) => status.failures.badSignatures >= least).length,
  disk_low: ({ freeBytes }) => FREE_MB.filter((limit) => Math.floor(freeBytes / MB) < limit).length,
  dead_letters: ({ status }) => orders(status.tasks.dead),
  // Each stretch of history that is lost is worth a post, until there are many.
  gap_open: ({ status }) => (status.gaps < 4 ? status.gaps : 2 + orders(status.gaps, 2)),
  conflict: (facts) => orders(grew(facts, 'conflicts')),
  poisoned: (facts) => orders(grew(facts, 'poisoned')),
  cursor_regression: (facts) => orders(grew(facts, 'regressions')),
  replay_blind: (facts) => orders(grew(facts, 'unseen')),
  clock_skew: (facts) => orders(grew(facts, 'refused.clock_skew')),
  body_limit: (facts) => orders(grew(facts, 'refused.body_limit')),
  run_crashing: (facts) => orders(grew(facts, 'run_crashes')),
  webhook_silent: ({ missed = 0 }) => orders(missed),
  reconcile_behind: ({ now, status: { reconcile } }) => orders((now - sinceOf(reconcile.since, now)) / TROUBLE_MS),
  reconcile_stopped: ({ now, status: { reconcile } }) => orders((now - sinceOf(reconcile.since, now)) / TROUBLE_MS),
  handler_failing: ({ grown, broken = [] }) =>
    broken.filter(({ waiting }) => waiting.length > 0).length +
    Object.keys(grown).filter((one) => {
      const [, name] = /^attempts\.retry\.(.+)/.exec(one) ?? [];
      return name !== undefined && (grown[one] ?? 0) > (grown[`attempts.done.${name}`] ?? 0);
    }).length,
  lane_fault: ({ grown }) => Object.keys(grown).filter((one) => one.startsWith('lane_faults.') && grown[one]).length,
};

/** 1 from 1 on, 2 from ten times as many, and so on. */
function orders(count: number, base = 10): number {
  // Not by logarithms, which are inexact.
  let level = 0;
  for (let least = 1; count >= least; least *= base) level++;
  return level;
}

function sinceOf(since: string | null, now: number): number {
  return since === null ? now : Date.parse(since);
}
