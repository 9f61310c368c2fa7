// Judges the facts again and again, and writes down which alarms stand.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import { alarmsOf, type Disk } from '../operations/alarms.ts';
import type { PeopleStore } from '../operations/store/open.ts';
import { logBytes } from './checkpoint.ts';

const STEP_MS = 5_000;

export function diskOf(file: string): Disk {
  const { bavail, bsize } = statfsSync(dirname(file));
  return { logBytes: logBytes(file), freeBytes: bavail * bsize };
}

export interface AlarmsOptions extends PeopleStore {
  config: Pick<Config, 'storePath'>;
  log: Logger;
}

export function createAlarms({ read, admin, config, log }: AlarmsOptions): () => Promise<number> {
  return async () => {
    const facts = await read.facts();
    const list = alarmsOf(facts, diskOf(config.storePath));
    if (list.length === 0 && facts.alarms.length === 0) return STEP_MS;
    const { raised, cleared } = await admin.alarms(list);
    for (const { name, about, level, text } of raised) log.warn({ alarm: name, about, level }, text);
    for (const { name, about } of cleared) log.info({ alarm: name, about }, 'the alarm is over');
    return STEP_MS;
  };
}
