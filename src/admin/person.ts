// Decides by an address whether a body belongs to a person, so that the person's bodies can be erased.
import { orUndefined } from '../base/errors.ts';
import type { Json } from '../wire/json.ts';

/** `+55 11 5555-0100`, `551155550100` and `551155550100@…` are the same person. */
export function isOf(address: string): (body: Uint8Array) => boolean {
  const wanted = plain(address);
  const names = (text: string): boolean => plain(text.split('@', 1)[0] ?? '') === wanted || plain(text) === wanted;
  return (body) => {
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    // A body that is not JSON may contain the address anywhere.
    return orUndefined(() => someString(JSON.parse(text) as Json, names)) ?? plain(text).includes(wanted);
  };
}

/** A phone number becomes its digits; any other text becomes lower case. */
function plain(text: string): string {
  return /^[+\d\s().-]+$/.test(text) ? text.replaceAll(/\D/g, '') : text.trim().toLowerCase();
}

function someString(value: Json, holds: (text: string) => boolean): boolean {
  if (typeof value === 'string') return holds(value);
  if (typeof value !== 'object' || value === null) return false;
  return Object.values(value).some((inner) => someString(inner, holds));
}
