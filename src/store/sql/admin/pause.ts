// The brake on handlers: one state that every turn reads before it claims.
import type { AdminStore } from '../../admin.ts';
import { keptOf, type KeptState } from '../../state.ts';
import type { Session } from '../session.ts';

type Paused = KeptState['paused'];

const ALL = '*';

export function createPause(session: Session): Pick<AdminStore, 'pause' | 'resume'> {
  const handlers = session.value<string>('select name from handlers order by name');

  /** What is left after this handler goes on. If all were paused, the others that the store knows stay paused. */
  async function without(paused: Paused, handler: string): Promise<Paused> {
    const { [ALL]: all, ...named } = paused;
    const known = all ? (await handlers.all()).map((name) => [name, all] as const) : [];
    const { [handler]: _, ...left } = { ...Object.fromEntries(known), ...named };
    return left;
  }

  const change = (work: (paused: Paused) => Promise<Paused>): Promise<boolean> =>
    session.write(async () => {
      const before = keptOf('paused', await session.state('paused'));
      const after = JSON.stringify(await work(before));
      if (after === JSON.stringify(before)) return false;
      await session.setState('paused', after);
      return true;
    }, 'work');

  return {
    async pause(handler, reason, now) {
      const name = handler ?? ALL;
      await change(async (paused) => ({ [name]: { at: now, reason }, ...paused }));
    },
    resume: (handler) => change(async (paused) => (handler === null ? {} : without(paused, handler))),
  };
}
