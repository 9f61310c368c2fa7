// Pauses a handler, or all of them: their tasks wait in order.
import { pauseHandler } from '../../admin/handlers.ts';
import type { Store } from '../../store/store.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { clean, print } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';

export default {
  summary: 'stop a handler, or all; their tasks wait in order',
  usage: 'pause <handler> [--reason TEXT] | pause --all [--reason TEXT]',
  run: (args) => changePause(args, (store, handler, reason) => pauseHandler(store, { handler, reason }, store.now())),
} satisfies Command;

/** `work` gets the name of the handler, or null for all, and resolves to a message. */
export async function changePause(
  args: string[],
  work: (store: Store, handler: string | null, reason: string | undefined) => Promise<string>,
): Promise<void> {
  const { values, positionals } = parse(args, { text: ['reason'], flags: ['all'] });
  const [handler = null, ...more] = positionals;
  if (more.length > 0 || (handler === null) !== (values.all ?? false))
    throw new UsageError('name one handler, or --all: npx kit handlers lists them');
  print(clean(await withStore((store) => work(store, handler, values.reason))));
}
