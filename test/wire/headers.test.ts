// The names of headers are in wire/headers.ts alone, so that a service with other names needs a change of one file.
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { DELIVERY, LAST_EVENT_ID, receivedHeaders, REQUEST_ID } from '../../src/wire/headers.ts';

test('6.3: Node gives the headers of a delivery these names', () => {
  expect(Object.values(receivedHeaders('X-Svc-'))).toEqual([
    'x-svc-event-id',
    'x-svc-event-type',
    'x-svc-delivery-id',
    'x-svc-attempt',
    'x-svc-timestamp',
    'x-svc-signature',
  ]);
});

test('no other file of src contains the name of a header', () => {
  const whole = ['x-svc', REQUEST_ID, LAST_EVENT_ID].join('|');
  // The patterns find names after a prefix, or alone in a string. Lower case is not searched, because fields of the log
  // and of the body have the same names.
  const named = new RegExp(`${whole}|\\}(${Object.values(DELIVERY).join('|')})\\b`, 'i');
  const alone = new RegExp(`['"\`](${Object.values(DELIVERY).join('|')})['"\`]`);
  const spelling = globSync('src/**/*.ts').filter((file) => {
    const source = readFileSync(file, 'utf8');
    return named.test(source) || alone.test(source);
  });
  expect(spelling).toEqual(['src/wire/headers.ts']);
});
