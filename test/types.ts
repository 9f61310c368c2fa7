// Types of handlers and of their tests. Only tsc reads this file: each line after `@ts-expect-error` must fail to
// compile, otherwise tsc reports it.
import { defineHandler } from '#kit';
import { deliver, fixture } from '#kit/testing';

export const right = [
  defineHandler({
    on: 'MessageReceived',
    handle(event) {
      event.data.body satisfies string;
      event.data.timestamp_unix_ms satisfies number | null;
      // Fields that the contract may add exist on `data`, with an unknown type.
      event.data['something_new'] satisfies unknown;
    },
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
      // @ts-expect-error -- a misspelt field has an unknown type, not string
      event.data.bodi satisfies string;
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

export const fixtures = [
  fixture('MessageReceived', { data: { body: 'hi' } }),
  fixture('NobodyKnowsIt', { data: { anything: 1 } }),
  // @ts-expect-error -- body is a string
  fixture('MessageReceived', { data: { body: 1 } }),
  // @ts-expect-error -- a fixture has no such override
  fixture('MessageReceived', { body: 'hi' }),
  // @ts-expect-error -- `order` has no such value
  () => deliver(right[0], [], { order: 'random' }),
];
