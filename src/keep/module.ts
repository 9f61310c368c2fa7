// The interface between the `keep` process and its modules. src/keep/modules.ts lists the modules.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { Alarm, ReadStore } from '../store/read.ts';
import type { Disk } from '../store/site.ts';
import type { Store } from '../store/store.ts';
import type { Accounts } from './account.ts';

export interface Keep {
  config: Config;
  store: Store;
  clock: Clock;
  log: Logger;
  /** Returns the milliseconds until a loop retries after this error of the store. Throws other errors. */
  recover: (error: unknown) => number;
  accounts: Accounts;
  view: Pick<ReadStore, 'status' | 'counters'>;
  disk: () => Promise<Disk>;
  freeBytes: () => number;
  wake: () => void;
  /** Whether this instance leads at the start. If not, only the state is shown until `leading` resolves. */
  leads: boolean;
  leading: Promise<void>;
  shared: Shared;
}

/** Each module replaces the members that it provides. */
export interface Shared {
  /** Alarms that `keep` has raised. Null: another instance raises them, and they are in the store. */
  alarms: () => Alarm[] | null;
  /** Every alarm that the kit can raise, by name. The module `alarms` fills it. */
  rules: AlarmRules;
  webhooksSilent: () => boolean;
  /** Makes reconciliation fetch missed events at once. */
  reconcile: () => void;
  /** Makes reconciliation look at once for events that strict tasks wait for. */
  prove: () => void;
}

/** The part of an alarm's rule that pages and posts show. An alarm without a rule is a warning. */
export type AlarmRules = Record<
  string,
  { gravity: 'critical' | 'warning'; deliveries?: DeliveryTrouble; remedy: string; page?: string }
>;

/** While the alarm is up, deliveries cannot be committed, do not arrive, or get no 2xx. */
export type DeliveryTrouble = 'uncommitted' | 'missing' | 'refused';

export interface Started {
  /** Resolves when commands of the CLI may rely on the module. */
  ready?: Promise<void>;
  stop: () => Promise<unknown>;
}

export type KeepModule = (keep: Keep) => Started | Promise<Started>;
