// Closes a gap after a person has fetched the events that matter by other means. The reason says how.
import type { Store } from '../store/store.ts';
import { AdminError } from './error.ts';

/** Resolves to a message. Throws AdminError. */
export async function closeGap(
  store: Pick<Store, 'admin'>,
  { gap, reason }: { gap: number; reason: string },
  now: number,
): Promise<string> {
  if (reason.trim() === '') throw new AdminError('input', 'a gap is closed with a reason: say what was done about it');
  if (await store.admin.closeGap(gap, reason.trim(), now)) return `gap ${gap} is closed`;
  throw new AdminError('missing', `there is no open gap ${gap}`, 'npx kit gaps lists them');
}
