// Pauses and resumes handlers. The command line and the page show the same messages.
import type { HandlerFigures } from '../store/read.ts';
import type { Store } from '../store/store.ts';
import { AdminError } from './error.ts';

type Handlers = Pick<Store, 'read' | 'admin'>;

/** Finds the handler. Throws AdminError if the store does not know the name. */
export async function handlerNamed({ read }: Pick<Store, 'read'>, name: string, now: number): Promise<HandlerFigures> {
  const found = (await read.handlers(now)).find((one) => one.name === name);
  if (found) return found;
  throw new AdminError('missing', `no handler is named ${JSON.stringify(name)}`, 'npx kit handlers lists them');
}

/** Pauses the handler, or every handler (null). Resolves to a message. Throws AdminError. */
export async function pauseHandler(
  store: Handlers,
  { handler, reason = '' }: { handler: string | null; reason?: string | undefined },
  now: number,
): Promise<string> {
  if (handler !== null) await handlerNamed(store, handler, now);
  await store.admin.pause(handler, reason.trim() || null, now);
  return `${handler === null ? 'all handlers are' : `${handler} is`} paused: running attempts end, and tasks wait in order`;
}

/** Ends the pause of the handler, or every pause (null). Resolves to a message. Throws AdminError. */
export async function resumeHandler(store: Handlers, handler: string | null, now: number): Promise<string> {
  // A name can be paused before its handler is loaded: tasks move.
  if (await store.admin.resume(handler, now)) return `${handler === null ? 'all handlers go' : `${handler} goes`} on`;
  if (handler !== null) await handlerNamed(store, handler, now);
  throw new AdminError('missing', handler === null ? 'no handler is paused' : `${handler} is not paused`);
}
