// A child that shows life once, and when it is given a number says which.
import { setTimeout } from 'node:timers';

process.send?.({ type: 'wake' });
process.once('message', ({ boot }: { boot: number }) => process.send?.({ type: 'loaded', handlers: [String(boot)] }));
process.once('disconnect', () => process.exit());
setTimeout(() => {}, 2 ** 30);
