// Only tsc reads this: what a slip in a handler or its test costs is an error in the editor. Each line below
// `@ts-expect-error` fails to compile; were it to compile, tsc would say so.
import { defineHandler } from '#kit';
import { deliver, fixture } from '#kit/testing';

export const right = [
  defineHandler({
    on: 'MessageReceived',
    handle(event) {
      event.data.body satisfies string;
      event.data.timestamp_unix_ms satisfies number | null;
      // Fields that the contract may add are there, of unknown type.
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
  // @ts-expect-error -- no such type: a slip, or one to add to src/events.ts
  defineHandler({ on: 'MesageReceived', handle: () => {} }),
  // @ts-expect-error -- one of several is wrong
  defineHandler({ on: ['MessageReceived', 'MessageSend'], handle: () => {} }),
  // @ts-expect-error -- no such order
  defineHandler({ on: '*', order: 'sorted', handle: () => {} }),
  // @ts-expect-error -- no such field of a handler
  defineHandler({ on: '*', timeout: 5, handle: () => {} }),
  // @ts-expect-error -- a handler handles
  defineHandler({ on: '*' }),
  defineHandler({
    on: 'MessageReceived',
    handle(event, ctx) {
      // @ts-expect-error -- misspelt: it is of unknown type, and no string
      event.data.bodi satisfies string;
      // @ts-expect-error -- a number or null, not a string
      event.data.timestamp_unix_ms satisfies string;
      // @ts-expect-error -- events are frozen
      event.id = null;
      // @ts-expect-error -- it does not know whether it wrote before it is awaited
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
