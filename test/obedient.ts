// A child that says which number it was given first.
import { setTimeout } from 'node:timers';

process.once('message', ({ boot }: { boot: number }) => process.send?.({ type: 'loaded', handlers: [String(boot)] }));
process.once('disconnect', () => process.exit());
setTimeout(() => {}, 2 ** 30);
