// Sends events to the kit of `npm run dev`: new ones, stored ones again, and stored ones with other data.
import { setTimeout as sleep } from 'node:timers/promises';
import { deliveryOf } from '../../../admin/copies.ts';
import type { JsonObject } from '../../../wire/json.ts';
import { deliver } from '../deliver.ts';
import type { Made } from '../source.ts';
import type { Asked, DevContext, Find } from './context.ts';
import { dataOf } from './view.ts';

const AGAIN_MS = 250;
const TRIES = 40;

export function createSending({ source, endpoint, types, changed }: DevContext, find: Find) {
  async function post({ key, id, body }: Made, type: string): Promise<{ key: string }> {
    let status: number | undefined;
    // The kit may be starting.
    for (let tries = 0; status === undefined && tries < TRIES; tries++) {
      if (tries > 0) await sleep(AGAIN_MS);
      status = await deliver(endpoint, { id, type, body: Buffer.from(body) });
    }
    changed();
    if (status === undefined) throw new Error('the kit does not answer: the terminal of npm run dev says why');
    if (status >= 300) throw new Error(`the kit answered ${status}: the terminal of npm run dev says why`);
    return { key };
  }

  return {
    /**
     * `as`: the key of an event whose id and cursor are used again. Absent: a new event happens. `anyway`: also data that
     * do not fit their type.
     */
    async send({ type, data, as, anyway }: Asked) {
      const named = typeof type === 'string' ? type : '';
      const errors = anyway === true ? [] : types.check(named, data);
      if (errors.length > 0) return { errors };
      if (as === undefined) return post(source.next(named, data as JsonObject), named);
      const { event } = await find(as);
      return post({ key: event.key, id: event.id ?? '', body: deliveryOf(event, data as JsonObject) }, event.type);
    },

    async resend({ key }: Asked) {
      const { event, store } = await find(key);
      const bytes = await store.read.body(event.key);
      if (!bytes) throw new Error(`the body of ${event.key} was purged`);
      const body =
        event.origin === 'webhook'
          ? Buffer.from(bytes).toString()
          : deliveryOf(event, (await dataOf(store, event)) ?? {});
      return post({ key: event.key, id: event.id ?? '', body }, event.type);
    },
  };
}
