// Each large body blocks the event loop while it is verified. If several are complete at the same moment, small
// deliveries are answered first.
import { expect, test } from 'vitest';
import { createBodyReader, type BodyReader } from '../../src/receive/body.ts';
import { bodyOf, deliver, message, signed, startReceiver } from './harness.ts';

const BIG = 3;
const MEGABYTES = 'x'.repeat(2 * 1024 * 1024);

/** Holds bodies back until this many have arrived, then passes them all on in one iteration of the event loop. */
function together(count: number): BodyReader {
  const inner = createBodyReader();
  const all = Promise.withResolvers<void>();
  let come = 0;
  return {
    async read(...given) {
      const body = await inner.read(...given);
      if (++come === count) all.resolve();
      await all.promise;
      return body;
    },
  };
}

/** Counts the iterations of the event loop. */
function countTurns(): { turn: () => number; stop: () => void } {
  let turn = 0;
  let next = setImmediate(function again() {
    turn++;
    next = setImmediate(again);
  });
  return { turn: () => turn, stop: () => clearImmediate(next) };
}

test('E83: each iteration of the event loop verifies at most one large body, and small bodies do not wait for them', async () => {
  const receiver = await startReceiver({ bodies: together(BIG + 2) });
  const turns = countTurns();
  const seen: { bytes: number; turn: number }[] = [];
  const verifier = { ...receiver.verifier };
  receiver.verifier.body = (claimed, body, now) => {
    seen.push({ bytes: body.length, turn: turns.turn() });
    return verifier.body(claimed, body, now);
  };
  const texts = [...Array.from({ length: BIG }, () => MEGABYTES), 'small', 'small'];
  const statuses = await Promise.all(
    texts.map((text, n) => {
      const body = bodyOf({ cursor: String(n + 1), data: { MessageReceived: message({ body: text }) } });
      return deliver(receiver.port, body, signed(body));
    }),
  );
  turns.stop();
  expect(statuses).toEqual(texts.map(() => 204));
  const small = seen.filter(({ bytes }) => bytes < MEGABYTES.length).map(({ turn }) => turn);
  const large = seen.filter(({ bytes }) => bytes > MEGABYTES.length).map(({ turn }) => turn);
  expect(new Set(large).size).toBe(BIG);
  expect(Math.max(...small)).toBeLessThan(Math.min(...large));
});
