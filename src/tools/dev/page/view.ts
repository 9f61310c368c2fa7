// What the page of `npm run dev` shows: the newest events with a dot for each handler, and one event in full.
import { dataOfBody } from '../../../wire/event.ts';
import type { JsonObject } from '../../../wire/json.ts';
import { iso } from '../../../base/clock.ts';
import { timelineOf } from '../../../admin/timeline.ts';
import type { ShownEvent, ShownTask } from '../../../store/read.ts';
import type { Store } from '../../../store/store.ts';
import { withoutPlace, type EventLog } from './record.ts';
import type { EventTypes } from './types.ts';

const ROWS = 100;
/** The newest tasks, which cover the rows if an event has up to ten handlers. */
const TASKS = 1_000;
const TEXT = 200;

export interface Row {
  key: string;
  type: string;
  at: string | null;
  origin: string;
  copies: number;
  conversation: string;
  text: string;
  tasks: { handler: string; state: string; attempts: number; late: boolean }[];
}

type Summary = Pick<Row, 'conversation' | 'text'>;

/** The bodies of events do not change, so each is read once. */
function createSummaries(types: EventTypes) {
  const known = new Map<string, Summary>();

  return async (store: Store, event: ShownEvent): Promise<Summary> => {
    const summary = known.get(event.key) ?? summaryOf(types, event.type, await dataOf(store, event));
    known.set(event.key, summary);
    const [oldest] = known.keys();
    if (known.size > 2 * ROWS && oldest !== undefined) known.delete(oldest);
    return summary;
  };
}

function summaryOf(types: EventTypes, type: string, data: JsonObject | null): Summary {
  const text = [data?.['body'], data?.['status'], data?.['message']].find((one) => typeof one === 'string');
  return {
    conversation: data ? types.conversation(type, data) : '',
    text: typeof text === 'string' ? text.slice(0, TEXT) : '',
  };
}

export function createView(types: EventTypes, record: EventLog) {
  const summary = createSummaries(types);

  return {
    async rows(store: Store): Promise<Row[]> {
      const now = store.now();
      const { events } = await store.read.events({ limit: ROWS }, now);
      const { tasks } = await store.read.tasks({ limit: TASKS }, now);
      const byKey = Map.groupBy(tasks, ({ key }) => key);
      const rows: Row[] = [];
      for (const event of events) {
        const { key, type, origin, copies, createdAt, receivedAt } = event;
        const of = (byKey.get(key) ?? []).toReversed();
        const dots = of.map(({ handler, state, attempts, late }) => ({ handler, state, attempts, late }));
        const at = iso(createdAt ?? receivedAt);
        rows.push({ key, type, at, origin, copies, ...(await summary(store, event)), tasks: dots });
      }
      return rows;
    },

    async event(store: Store, key: string) {
      const found = await store.read.event(key, store.now());
      if (!found) return null;
      const { event, tasks, aliases } = found;
      const { id, type, cursor, sessionId, origin, copies, createdAt, receivedAt } = event;
      const said = record.of(event.key);
      const taskOf = ({ id: task, handler, state, attempts, late, dueAt, error }: ShownTask) => {
        const lines = said.filter((line) => line.handler === handler);
        const last = lines.findLast(({ verdict }) => verdict !== null);
        // After a restart only the store knows what failed.
        const place = state === 'done' ? null : (last?.place ?? placeIn(error));
        return {
          task,
          handler,
          state,
          attempts,
          late,
          dueAt,
          ms: last?.ms ?? null,
          error: error && withoutPlace(error),
          place,
          lines,
        };
      };
      return {
        ...{ key: event.key, id, type, cursor, sessionId, origin, copies, aliases },
        contradicted: found.conflicts.length > 0,
        createdAt: iso(createdAt),
        receivedAt: iso(receivedAt),
        data: await dataOf(store, event),
        // Failures first: they are what a developer looks for.
        tasks: tasks.map(taskOf).toSorted((a, b) => Number(b.error !== null) - Number(a.error !== null)),
        timeline: timelineOf(found),
      };
    },
  };
}

function placeIn(error: string | null): string | null {
  return / \((\S+:\d+)\)$/.exec(error ?? '')?.[1] ?? null;
}

/** Null: the body was purged. */
export async function dataOf(store: Store, event: ShownEvent): Promise<JsonObject | null> {
  const body = await store.read.body(event.key);
  return body ? dataOfBody(event.origin, event.type, body) : null;
}
