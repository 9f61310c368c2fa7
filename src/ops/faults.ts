// Turns an error into an HTTP status and words for the sender. The API and the pages share it.
import { ZodError } from 'zod';
import { AdminError } from '../admin/error.ts';
import { faultsOf } from '../admin/filters.ts';
import { StoreError } from '../store/store.ts';

const STATUS = { input: 400, missing: 404, busy: 409 } as const;

/**
 * What to answer if a request has caused this error. Without words, the request itself cannot be read. Undefined: the
 * error is a bug of the kit.
 */
export function faultOf(error: unknown): { status: number; words: string } | undefined {
  if (error instanceof ZodError) return { status: 400, words: faultsOf(error) };
  if (error instanceof AdminError) return { status: STATUS[error.code], words: error.message };
  if (error instanceof StoreError) return { status: 503, words: error.message };
  const status = (error as { status?: unknown } | null)?.status;
  return typeof status === 'number' && status >= 400 && status < 500 ? { status, words: '' } : undefined;
}
