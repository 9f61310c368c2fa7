// Deliveries with a single change: an edited byte of the body, the timestamp, the signature or the length, another
// timestamp, or a content encoding. Each must be refused without a trace in the store.
import * as fc from 'fast-check';
import { hmac, SECONDS } from '../../receive/harness.ts';
import { headerText, readable } from './bodies.ts';
import type { Row } from '../report.ts';
import { check, hold, type Asked } from './check.ts';
import { request, splice, withReceiver } from './receiver.ts';

interface Edit {
  kind: 'replace' | 'insert' | 'delete';
  at: number;
  code: number;
}
type Change =
  | { of: 'body' | 'timestamp' | 'signature' | 'length'; edit: Edit }
  | { of: 'time'; by: number }
  | { of: 'encoding'; value: string };

const editWith = (code: fc.Arbitrary<number>): fc.Arbitrary<Edit> =>
  fc.record({ kind: fc.constantFrom('replace', 'insert', 'delete'), at: fc.nat(2_000), code });
/** Bytes that a header's value may contain. */
const inHeader = fc.oneof(fc.integer({ min: 0x20, max: 0x7e }), fc.integer({ min: 0x80, max: 0xff }));
export const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ of: fc.constant('body' as const), edit: editWith(fc.nat(255)) }),
  fc.record({ of: fc.constantFrom('timestamp', 'signature', 'length'), edit: editWith(inHeader) }),
  fc.record({ of: fc.constant('time' as const), by: fc.oneof(fc.integer({ min: -600, max: 600 }), fc.integer()) }),
  fc.record({ of: fc.constant('encoding' as const), value: headerText }),
);

export function anyChange(asked: Asked): Promise<Row> {
  return withReceiver(({ wire, wipe, kept, countRows }) =>
    check('any single change of a right delivery: refused, and nothing kept', asked, (onCase) =>
      fc.asyncProperty(readable, change, async ({ body }, one) => {
        onCase();
        wipe();
        const { bytes, allowed } = changed(body, one);
        // If the body is shorter than its length says, the receiver notices only when the connection ends.
        const status = await wire.ask(bytes, one.of === 'length' && !allowed.includes(204));
        hold(allowed.includes(status), `answered with ${status}, allowed: ${allowed.join(', ')}`);
        if (status === 204) hold(kept().length === 1, 'not kept, after a 204');
        else hold(countRows() === 0, `${countRows()} rows written, after a ${status}`);
      }),
    ),
  );
}

/**
 * The request with this change, and the allowed statuses. 204 is allowed only if the change does not alter the
 * meaning.
 */
export function changed(body: Buffer, one: Change): { bytes: Buffer; allowed: number[] } {
  const good = hmac(body);
  const right = { timestamp: String(SECONDS), signature: `v1=${good}`, length: String(body.length) };
  if (one.of === 'encoding') {
    const bytes = request(body, [['Content-Encoding', one.value]]);
    return { bytes, allowed: [one.value.toLowerCase() === 'identity' ? 204 : 415] };
  }
  if (one.of === 'time') {
    const bytes = request(body, [], { ...right, timestamp: String(SECONDS + one.by) });
    return { bytes, allowed: [one.by === 0 ? 204 : 401] };
  }
  if (one.of === 'body') {
    const other = edited(body, one.edit);
    const bytes = request(other, [], { ...right, length: String(other.length) });
    return { bytes, allowed: [other.equals(body) ? 204 : 401] };
  }
  const value = edited(Buffer.from(right[one.of]), one.edit).toString('latin1');
  const says = bare(value);
  const bytes = request(body, [], { ...right, [one.of]: value });
  // A wrong length leads to an invalid request, a body that is cut short, or a body followed by surplus bytes.
  if (one.of === 'length')
    return { bytes, allowed: /^\d+$/.test(says) && Number(says) === body.length ? [204] : [400, 401, 408, 413] };
  const same =
    one.of === 'timestamp' ? says === right.timestamp : value.split(',').some((v) => isRight(v.trim(), good));
  return { bytes, allowed: [same ? 204 : 401] };
}

/** Whether a signature has the format of the contract (6.3) and this hex, in upper or lower case. */
function isRight(value: string, hex: string): boolean {
  return value.startsWith('v1=') && value.slice(3).toLowerCase() === hex;
}

/** The value without the blanks around it, which HTTP strips. */
function bare(value: string): string {
  return value.replaceAll(/^[ \t]+|[ \t]+$/g, '');
}

function edited(bytes: Buffer, { kind, at, code }: Edit): Buffer {
  return splice(bytes, at % bytes.length, kind === 'insert' ? 0 : 1, kind === 'delete' ? [] : [code]);
}
