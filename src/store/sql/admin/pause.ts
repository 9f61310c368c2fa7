// The pauses of handlers: one state that every turn reads before it claims.
import type { AdminStore } from '../../admin.ts';
import { keptOf, type KeptState } from '../../state.ts';
import { createMarkDirty } from '../work/waiting.ts';
import type { Session } from '../session.ts';

type Paused = KeptState['paused'];

const ALL = '*';

export function createPause(session: Session): Pick<AdminStore, 'pause' | 'resume'> {
  const handlers = session.value<string>('select name from handlers order by name');
  const holding = session.statement<{ id: number; lane: number }>(`
    select id, lane from tasks where handler = (select id from handlers where name = ?) and state = 'ready'
      and lane is not null and hold_until > ?`);
  const extend = session.statement(
    `update tasks set hold_until = hold_until + @ms where state = 'ready' and id ${session.dialect.oneOf('@ids', 'bigint')}`,
  );
  const markDirty = createMarkDirty(session);
  const read = async (): Promise<Paused> => keptOf('paused', await session.state('paused'));

  /** What is left after this handler goes on. If all were paused, the others that the store knows stay paused. */
  function without(paused: Paused, known: string[], handler: string): Paused {
    const { [ALL]: all, ...named } = paused;
    const others = all && known.includes(handler) ? known.map((name) => [name, all] as const) : [];
    const { [handler]: _, ...left } = others.length > 0 ? { ...Object.fromEntries(others), ...named } : paused;
    return left;
  }

  /** The failed tasks that hold their lane. They keep their place in it, because the time of a pause does not count. */
  async function held(paused: Paused, names: string[], now: number) {
    const found: { ms: number; tasks: { id: number; lane: number }[] }[] = [];
    for (const name of names) {
      const since = Math.min(
        ...[ALL, name].map((key) => (Object.hasOwn(paused, key) ? (paused[key]?.at ?? now) : now)),
      );
      const tasks = since < now ? await holding.all(name, since) : [];
      if (tasks.length > 0) found.push({ ms: now - since, tasks });
    }
    return found;
  }

  return {
    pause: (handler, reason, now) =>
      session.write(async () => {
        const after = { [handler ?? ALL]: { at: now, reason }, ...(await read()) };
        await session.setState('paused', JSON.stringify(after));
      }, 'work'),
    async resume(handler, now) {
      const known = await handlers.all();
      // Read before the transaction, because a backlog may be long. While it is paused, nothing claims its tasks.
      const holds = await held(await read(), handler === null ? known : [handler], now);
      return session.write(async () => {
        const before = await read();
        const after = handler === null ? {} : without(before, known, handler);
        if (JSON.stringify(after) === JSON.stringify(before)) return false;
        await session.setState('paused', JSON.stringify(after));
        for (const { ms, tasks } of holds) await extend.run({ ms, ids: tasks.map(({ id }) => id) });
        await markDirty(holds.flatMap(({ tasks }) => tasks.map(({ lane }) => lane)));
        return true;
      }, 'work');
    },
  };
}
