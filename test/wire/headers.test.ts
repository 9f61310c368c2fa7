// The names of headers are in wire/headers.ts alone, so that another contract changes one file.
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { DELIVERY, LAST_EVENT_ID, receivedHeaders, REQUEST_ID } from '../../src/wire/headers.ts';

test('6.3: Node hands the headers of a delivery over by these names', () => {
  expect(Object.values(receivedHeaders('X-Svc-'))).toEqual([
    'x-svc-event-id',
    'x-svc-event-type',
    'x-svc-delivery-id',
    'x-svc-attempt',
    'x-svc-timestamp',
    'x-svc-signature',
  ]);
});

test('no other file of src spells the name of a header', () => {
  const whole = ['x-svc', REQUEST_ID, LAST_EVENT_ID].join('|');
  // The pattern finds names after a prefix or alone in a string. The log and the body have fields of the same names in
  // lower case.
  const named = new RegExp(`${whole}|\\}(${Object.values(DELIVERY).join('|')})\\b`, 'i');
  const alone = new RegExp(`['"\`](${Object.values(DELIVERY).join('|')})['"\`]`);
  const spelling = globSync('src/**/*.ts').filter((file) => {
    const source = readFileSync(file, 'utf8');
    return named.test(source) || alone.test(source);
  });
  expect(spelling).toEqual(['src/wire/headers.ts']);
});
