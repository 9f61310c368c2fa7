// Only tsc reads this file: a mistake in a handler or in its test is an error in the editor. Each line after
// `@ts-expect-error` must fail to compile; otherwise tsc reports it.
import { defineHandler } from '#kit';
import { deliver, fixture } from '#kit/testing';

export const right = [
  defineHandler({
    on: 'MessageReceived',
    handle(event) {
      event.data.body satisfies string;
      event.data.timestamp_unix_ms satisfies number | null;
      // Fields that the contract may add are present, with an unknown type.
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
  defineHandler({ on: '*', handle: (event) => void (event.data satisfies Record<string, unknown>) }),
];

export const wrong = [
  // @ts-expect-error -- src/events.ts has no such type
  defineHandler({ on: 'MesageReceived', handle: () => {} }),
  // @ts-expect-error -- the second type is misspelt
  defineHandler({ on: ['MessageReceived', 'MessageSend'], handle: () => {} }),
  // @ts-expect-error -- no such order
  defineHandler({ on: '*', order: 'sorted', handle: () => {} }),
  // @ts-expect-error -- no such field of a handler
  defineHandler({ on: '*', timeout: 5, handle: () => {} }),
  // @ts-expect-error -- `handle` is required
  defineHandler({ on: '*' }),
  defineHandler({
    on: 'MessageReceived',
    handle(event, ctx) {
      // @ts-expect-error -- a misspelt field has an unknown type, not string
      event.data.bodi satisfies string;
      // @ts-expect-error -- a number or null, not a string
      event.data.timestamp_unix_ms satisfies string;
      // @ts-expect-error -- events are frozen
      event.id = null;
      // @ts-expect-error -- it returns a promise
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
  // @ts-expect-error -- no such override
  fixture('MessageReceived', { body: 'hi' }),
  // @ts-expect-error -- no such order
  () => deliver(right[0], [], { order: 'random' }),
];
