// Assembles the roles of the store on one connection.
import type { Roles } from '../store.ts';
import type { WorkStore } from '../work.ts';
import { createAlarmStore } from './alarms.ts';
import { createReplayStore } from './replay/store.ts';
import { createStateStore } from './state.ts';
import { createErase } from './admin/erase.ts';
import { createIngestStore, type Dropped } from './ingest/events.ts';
import { createRetry } from './admin/retry.ts';
import { createMove } from './admin/move.ts';
import { createProcessStore } from './work/processes.ts';
import { createReruns } from './admin/reruns.ts';
import { createSamples } from './read/samples.ts';
import { createWorkStore, type Completing } from './work/tasks.ts';
import { createKeepStore } from './keep/store.ts';
import { createReadStore } from './read/read.ts';
import type { Session, Sync } from './session.ts';

export type SyncRoles = { [Role in Exclude<keyof Roles, 'work'>]: Sync<Roles[Role]> } & {
  work: Sync<Omit<WorkStore, Completing>> & Pick<WorkStore, Completing>;
};

export interface RoleOptions {
  failing: Set<string>;
  onDropped: Dropped;
  idsInSegment: number | undefined;
  settleLog: (always?: boolean) => void;
  /** Called when the store was settled, with its identity. */
  onSettled: (identity: string) => void;
}

export function assembleRoles(session: Session, options: RoleOptions): SyncRoles {
  const { failing, onDropped, idsInSegment, settleLog, onSettled } = options;
  const events = createIngestStore(session, { idsInSegment, failing, onDropped });
  const tasks = createWorkStore(session);
  const { brokenHandlers, ...processes } = createProcessStore(session);
  const { askRerun, cancelRerun, ...reruns } = createReruns(session);
  return {
    ingest: {
      accept(batch) {
        settleLog();
        return events.accept(batch);
      },
      sync: () => settleLog(),
    },
    state: { ...createStateStore(session), note: events.note },
    work: {
      ...tasks,
      complete(...given) {
        settleLog();
        return tasks.complete(...given);
      },
      noteTask(...given) {
        settleLog();
        return tasks.noteTask(...given);
      },
    },
    processes: {
      ...processes,
      settle() {
        settleLog(true);
        onSettled(processes.identity());
      },
    },
    replay: createReplayStore(session, events.accept),
    alarms: { ...createAlarmStore(session), brokenHandlers },
    keep: createKeepStore(session, idsInSegment),
    read: { ...createReadStore(session), ...reruns, ...createSamples(session) },
    admin: {
      askRerun,
      cancelRerun,
      ...createMove(session),
      ...createRetry(session, events.readmit),
      ...createErase(session),
    },
  };
}
