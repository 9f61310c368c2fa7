// Whether something that the service sent is of a person, by their address: for forgetting them.
import type { Json } from '../wire/json.ts';

/** `+55 11 5555-0100`, `551155550100` and `551155550100@…` are one person. */
export function isOf(address: string): (body: Uint8Array) => boolean {
  const wanted = plain(address);
  const names = (text: string): boolean => plain(text.split('@', 1)[0] ?? '') === wanted || plain(text) === wanted;
  return (body) => {
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    try {
      return someString(JSON.parse(text) as Json, names);
    } catch {
      // What cannot be read may hold it anywhere.
      return plain(text).includes(wanted);
    }
  };
}

/** A phone number without what people write between its digits; anything else as it is. */
function plain(text: string): string {
  return /^[+\d\s().-]+$/.test(text) ? text.replaceAll(/\D/g, '') : text.trim().toLowerCase();
}

function someString(value: Json, holds: (text: string) => boolean): boolean {
  if (typeof value === 'string') return holds(value);
  if (typeof value !== 'object' || value === null) return false;
  return Object.values(value).some((inner) => someString(inner, holds));
}
