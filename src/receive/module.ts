// The interface between the receive process and the modules that src/receive/modules.ts lists.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { Alarm } from '../store/read.ts';
import type { WriteTrouble } from './store-watch.ts';

export interface Receive {
  config: Config;
  clock: Clock;
  log: Logger;
  /** Undefined: the store can be written. */
  trouble: () => WriteTrouble | undefined;
}

export interface ReceiveModule {
  /** Called before deliveries are accepted. Throws ConfigError. */
  check?: (config: Config) => Promise<void>;
  start?: (receive: Receive) => StartedModule;
}

export interface StartedModule {
  /** Called every few seconds, and more often while the store cannot be written. */
  look: () => void;
  alarms: () => Alarm[];
  /** Called with the new configuration after a reload. */
  useConfig: (config: Config) => void;
  stop: () => Promise<void>;
}
