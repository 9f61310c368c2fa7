// Types of handlers and of their tests. Only tsc reads this file: each line after `@ts-expect-error` must fail to
// compile, otherwise tsc reports it.
import { defineHandler } from '#kit';
import { deliver, fixture } from '#kit/testing';
import { z } from 'zod';
import type { Named } from '../src/base/define-event.ts';

export const right = [
  defineHandler({
    on: 'MessageReceived',
    handle(event) {
      event.data.body satisfies string;
      event.data.timestamp_unix_ms satisfies number | null;
    },
  }),
  defineHandler({
    // src/events.ts names no field of this type, so any field may be there.
    on: 'MessageSent',
    handle: (event) => void (event.data['anything'] satisfies unknown),
  }),
  defineHandler({
    on: ['MessageReceived', 'kit.gap'],
    handle(event) {
      if (event.type === 'kit.gap') event.data.gap satisfies number;
      else event.data.body satisfies string;
    },
  }),
  defineHandler({ on: '*', setup: (tx) => void tx.run('select 1'), handle() {} }),
  defineHandler({
    on: '*',
    setup: ['create table a (b text)', async (tx) => void ((await tx.get('select 1'))?.['b'] satisfies unknown)],
    handle() {},
  }),
  defineHandler({ on: '*', handle: (event) => void (event.data satisfies Record<string, unknown>) }),
];

export const wrong = [
  // @ts-expect-error -- src/events.ts has no such type
  defineHandler({ on: 'MesageReceived', handle: () => {} }),
  // @ts-expect-error -- the second type is misspelt
  defineHandler({ on: ['MessageReceived', 'MessageSend'], handle: () => {} }),
  // @ts-expect-error -- `order` has no such value
  defineHandler({ on: '*', order: 'sorted', handle: () => {} }),
  // @ts-expect-error -- a handler has no such field
  defineHandler({ on: '*', timeout: 5, handle: () => {} }),
  // @ts-expect-error -- a step of `setup` is SQL or a function
  defineHandler({ on: '*', setup: [1], handle: () => {} }),
  // @ts-expect-error -- SQL stands in a list
  defineHandler({ on: '*', setup: 'create table a (b text)', handle: () => {} }),
  // @ts-expect-error -- `handle` is required
  defineHandler({ on: '*' }),
  defineHandler({
    on: 'MessageReceived',
    handle(event, ctx) {
      // @ts-expect-error -- a misspelt field: did you mean body?
      void event.data.bdoy;
      // @ts-expect-error -- src/events.ts does not name the field
      void event.data['something_new'];
      // @ts-expect-error -- this field is a number or null, not a string
      event.data.timestamp_unix_ms satisfies string;
      // @ts-expect-error -- events are frozen
      event.id = null;
      // @ts-expect-error -- `ctx.complete` returns a promise
      const rows: number = ctx.complete(() => {});
      return Promise.resolve(void rows);
    },
  }),
];

export const lanes = [
  defineHandler({ on: 'MessageReceived', lane: ({ data }) => data.from, handle: () => {} }),
  // @ts-expect-error -- a misspelt field in a lane function
  defineHandler({ on: 'MessageReceived', lane: ({ data }) => data.form, handle: () => {} }),
  // @ts-expect-error -- a lane is named by a string
  defineHandler({ on: 'MessageReceived', lane: ({ data }) => data.is_group, handle: () => {} }),
];

export const fixtures = [
  fixture('MessageReceived', { data: { body: 'hi' } }),
  fixture('NobodyKnowsIt', { data: { anything: 1 } }),
  fixture('MessageSent', { data: { anything: 1 } }),
  // @ts-expect-error -- a misspelt field: did you mean body?
  fixture('MessageReceived', { data: { bdoy: 'hi' } }),
  // @ts-expect-error -- body is a string
  fixture('MessageReceived', { data: { body: 1 } }),
  // @ts-expect-error -- a fixture has no such override
  fixture('MessageReceived', { body: 'hi' }),
  // @ts-expect-error -- `order` has no such value
  () => deliver(right[0], [], { order: 'random' }),
];

const nested = z.looseObject({
  at: z.date(),
  media: z.looseObject({ mime: z.string() }).optional(),
  parts: z.array(z.looseObject({ kind: z.string() })),
  phones: z.record(z.string(), z.number()),
});
const other = z.union([nested, z.looseObject({ other: z.string() })]);

export function named(data: Named<z.infer<typeof nested>>, either: Named<z.infer<typeof other>>): void {
  data.media?.mime satisfies string | undefined;
  data.at.getTime() satisfies number;
  data.parts[0]?.kind satisfies string | undefined;
  data.phones['15550100'] satisfies number | undefined;
  if ('other' in either) either.other satisfies string;
  // @ts-expect-error -- misspelt in an object
  void data.media?.mimme;
  // @ts-expect-error -- misspelt in a list
  void data.parts[0]?.knid;
  // @ts-expect-error -- no field of any member of the union
  void either.ohter;
}
