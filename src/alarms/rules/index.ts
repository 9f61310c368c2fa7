// All alarms. To add one, add an object to the file of its subject. Tests then require its rule in ops/alerts.yaml and
// its section in ops/runbook.md.
import { DELIVERIES } from './deliveries.ts';
import { EVENTS } from './events.ts';
import { HANDLERS } from './handlers.ts';
import { PROCESSES } from './processes.ts';
import { REPLAY } from './replay.ts';
import { BACKUPS, DISK, WRITES } from './store.ts';

/** The rules that `keep` evaluates. */
export const KEEP_RULES = { ...DELIVERIES, ...REPLAY, ...EVENTS, ...HANDLERS, ...PROCESSES, ...DISK, ...BACKUPS };

export const RULES = { ...WRITES, ...KEEP_RULES };
