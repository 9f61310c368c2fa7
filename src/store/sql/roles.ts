// Assembles the roles of the store on one session.
import { createErase } from './admin/erase.ts';
import { createMove } from './admin/move.ts';
import { createPause } from './admin/pause.ts';
import { createReruns } from './admin/reruns.ts';
import { createRetry } from './admin/retry.ts';
import { createAlarmStore } from './alarms.ts';
import { createIngest, type IngestOptions } from './ingest/events.ts';
import { createKeepStore, type Upkeep } from './keep/store.ts';
import { createReadStore } from './read/read.ts';
import { createSamples } from './read/samples.ts';
import { createReplayStore } from './replay/store.ts';
import type { Session } from './session.ts';
import { createStateStore } from './state.ts';
import { createProcessStore } from './work/processes.ts';
import { createWorkStore } from './work/tasks.ts';

/** What has to do with files, or with several instances, is the database's own. */
export function assembleRoles(session: Session, options: IngestOptions & Upkeep) {
  const { accept, readmit, note } = createIngest(session, options);
  const { failingHeads, ...reading } = createReadStore(session);
  const { brokenHandlers, ...processes } = createProcessStore(session);
  return {
    ingest: { accept },
    state: { ...createStateStore(session), note },
    work: createWorkStore(session),
    processes,
    replay: createReplayStore(session, accept),
    alarms: { ...createAlarmStore(session), brokenHandlers, failingHeads },
    keep: createKeepStore(session, options),
    read: { ...reading, ...createSamples(session, reading.status) },
    admin: {
      ...createReruns(session),
      ...createMove(session),
      ...createPause(session),
      ...createRetry(session, readmit),
      ...createErase(session, options),
    },
  };
}
