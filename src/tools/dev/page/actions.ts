// What the page of `npm run dev` can ask for and do. Errors are thrown with a message for people.
import { copiesOf } from '../../../admin/copies.ts';
import { systemClock as clock } from '../../../base/clock.ts';
import { SESSION, type Asked, type DevContext, type Find } from './context.ts';
import { saveTest } from './save-test.ts';
import { createSending } from './sending.ts';
import { createView } from './view.ts';

export type Actions = ReturnType<typeof createActions>;
export function createActions(options: DevContext) {
  const { source, opsUrl, handlersDir, shown, types, record, changed } = options;
  const view = createView(types, record);

  const find: Find = async (key) => {
    const store = options.store();
    if (!store) throw new Error('the kit is not running: the terminal of npm run dev says why');
    const found = await store.read.event(String(key), store.now());
    if (!found) throw new Error(`${String(key)} is not in the store: was it cleared?`);
    return { ...found, store };
  };

  return {
    async state(key: string | null) {
      const store = options.store();
      const rows = store ? await view.rows(store) : [];
      const open = store && key !== null ? await view.event(store, key) : null;
      const { traffic, chaos } = source.switches ?? { traffic: null, chaos: null };
      const examples = types.examples(SESSION, clock.now());
      return { ...shown, live: !source.switches, traffic, chaos, handlersDir, ops: opsUrl, examples, rows, open };
    },
    changes: {
      ...createSending(options, find),
      again: ({ task }) => retry(opsUrl, Number(task)),
      async test({ key, handler }) {
        const { event, tasks, store } = await find(key);
        const task = tasks.find((one) => one.handler === handler);
        const body = await store.read.body(event.key);
        if (!task || !body) throw new Error(`${event.key} has no task of this handler, or its body was purged`);
        return saveTest({ ...task, type: event.type, handlersDir, fixture: copiesOf(event, body).fixture });
      },
      async turn({ traffic, chaos }) {
        if (!source.switches) throw new Error('the events are real: nothing to switch');
        if (typeof traffic === 'boolean') source.switches.traffic = traffic;
        if (typeof chaos === 'boolean') source.switches.chaos = chaos;
        changed();
        return {};
      },
      async recent() {
        shown.notice = (await source.recent?.()) ?? '';
        changed();
        return {};
      },
      async clear() {
        await options.clear();
        changed();
        return {};
      },
    } satisfies Record<string, (asked: Asked) => Promise<object>>,
  };
}

/** Asks the ops port, which also wakes the kit. */
async function retry(opsUrl: string, task: number): Promise<object> {
  const answer = await fetch(`${opsUrl}/api/tasks/retry`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ids: [task] }),
  }).catch(() => undefined);
  const { retried = 0 } = answer?.ok ? ((await answer.json()) as { retried?: number }) : {};
  if (retried === 0) throw new Error('nothing was run again: the task is done or at work by now');
  return {};
}
