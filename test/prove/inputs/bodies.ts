// Random bodies with a right signature, and random unsigned headers. Every body must be stored byte for byte.
import * as fc from 'fast-check';
import { bodyOf, envelope, message } from '../../receive/harness.ts';
import type { Row } from '../report.ts';
import { check, hold, type Asked } from './check.ts';
import { bodyIn, request, splice, withReceiver, type Kept } from './receiver.ts';

const visible = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
/** Any code point, including unpaired surrogates. */
const character = fc.integer({ min: 0, max: 0x10ffff }).map((code) => String.fromCodePoint(code));

/** A valid event with random text and extra fields. */
export const readable = fc
  .record({
    id: fc.string({ unit: visible, minLength: 1, maxLength: 200 }),
    cursor: fc.option(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }).map(String)),
    body: fc.string({ unit: character }),
    push_name: fc.string({ unit: character }),
    more: fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
  })
  .map(({ id, cursor, body, push_name, more }) =>
    bodyIn(bodyOf({ id, cursor, data: { MessageReceived: { ...more, ...message({ body, push_name }) } } }), true),
  );
const anything = fc.oneof(
  fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
  fc.json().map((text) => Buffer.from(text)),
  // An envelope with a random value in one field.
  fc
    .tuple(fc.constantFrom(...Object.keys(envelope())), fc.jsonValue())
    .map(([name, value]) => Buffer.from(JSON.stringify({ ...envelope(), [name]: value }))),
  // An envelope in which random bytes replace a piece.
  fc
    .tuple(fc.nat(300), fc.nat(20), fc.uint8Array({ maxLength: 20 }))
    .map(([at, length, bytes]) => splice(bodyOf(), at, length, bytes)),
);
export const anyBody = fc.oneof(
  readable,
  anything.map((bytes) => bodyIn(bytes, false)),
);

export const headerText = fc.string({ unit: visible, maxLength: 60 });
const NAMES = ['Event-Id', 'Event-Type', 'Delivery-Id', 'Attempt'].map((name) => `X-Svc-${name}`);
export const unsigned = fc.uniqueArray(
  fc.tuple(fc.constantFrom(...NAMES, 'Content-Type', 'User-Agent', 'X-Forwarded-For', 'Cookie'), headerText),
  { selector: ([name]) => name, maxLength: 4 },
);

export function anyBytes(asked: Asked): Promise<Row> {
  return withReceiver(({ wire, wipe, kept }) =>
    check('any bytes with a right signature: 204, kept byte for byte, once', asked, (onCase) =>
      fc.asyncProperty(anyBody, unsigned, unsigned, async ({ body, isEvent }, headers, others) => {
        onCase();
        wipe();
        hold204(await wire.ask(request(body, headers)));
        const [row, ...more] = kept();
        hold(row !== undefined && more.length === 0, () => `${1 + more.length} rows after one delivery`);
        hold(row.body.equals(body), 'kept with other bytes');
        hold(!isEvent || row.kind === 'event', 'a readable event was put into quarantine');
        if (row.kind === 'event') holdReadRight(row, body);
        hold204(await wire.ask(request(body, others)));
        hold(kept().length === 1, 'a second row after a second copy, whose headers alone were different');
      }),
    ),
  );
}

/** Id and cursor must be exactly those of the body, whatever the headers say. */
function holdReadRight({ id, cursor }: Kept, body: Buffer): void {
  const read = JSON.parse(new TextDecoder().decode(body)) as { id: unknown; cursor?: unknown };
  hold(read.id === id, () => `read ${JSON.stringify(id)} as the id instead of ${JSON.stringify(read.id)}`);
  if (typeof read.cursor === 'number') return;
  hold((read.cursor ?? null) === cursor, () => `read ${cursor} as the cursor instead of ${String(read.cursor)}`);
}

function hold204(status: number): void {
  hold(status === 204, `answered with ${status} instead of 204`);
}
