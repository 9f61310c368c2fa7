// The arguments of `pause` and `resume`: one handler, or --all.
import type { Store } from '../../store/store.ts';
import { parse, UsageError } from './command.ts';
import { clean, print } from './print.ts';
import { withStore } from './store.ts';

/** `work` gets the name of the handler, or null for all, and resolves to a message. */
export async function brake(
  args: string[],
  work: (store: Store, handler: string | null, reason: string | undefined) => Promise<string>,
): Promise<void> {
  const { values, positionals } = parse(args, { text: ['reason'], flags: ['all'] });
  const [handler = null, ...more] = positionals;
  if (more.length > 0 || (handler === null) !== (values.all ?? false))
    throw new UsageError('name one handler, or --all: npx kit handlers lists them');
  print(clean(await withStore((store) => work(store, handler, values.reason))));
}
