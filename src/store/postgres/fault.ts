// Which errors are the store's: those of the server and the connection. All others are returned as they are.
import { describe } from '../../base/errors.ts';
import { StoreError, type StoreCode } from '../store.ts';

const CODES: [RegExp, StoreCode][] = [
  [/^(40001|40P01|55P03|57014)$/, 'busy'],
  [/^53100$/, 'full'],
  [/^XX00[12]$/, 'damaged'],
  // Not reachable, not allowed, read-only, out of resources, stopping. Longer codes are those of Node.
  [/^(08|25006|25P03|28|3D|42501|53|57P|58|F0|XX|EPIPE|[A-Z_]{6,})/, 'io'],
];
/** The driver's own errors have no code. */
const LOST = /^(Connection terminated|Client (has encountered|was closed)|Query read timeout|timeout e)|SASL|SSL/;

/** What a user's statement is not allowed to do is no fault of the store. */
export const ofUser = (error: unknown): unknown =>
  error instanceof StoreError && error.message.startsWith('PostgreSQL: 42501') ? error.cause : error;

/** Another transaction was in the way, so this one did nothing. */
export function isRepeatable(error: unknown): boolean {
  const { code } = ((error as Error | undefined)?.cause ?? {}) as { code?: unknown };
  return error instanceof StoreError && (code === '40001' || code === '40P01');
}

export function faultOf(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const { code: given } = error as { code?: unknown };
  const code = typeof given === 'string' ? given : LOST.test(error.message) ? 'ECONNRESET' : '';
  const found = CODES.find(([shape]) => shape.test(code))?.[1];
  return found ? new StoreError(found, `PostgreSQL: ${code}: ${describe(error).message}`, error) : error;
}
