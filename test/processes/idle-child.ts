// A child that shows life once, has loaded (with `slow`, when it is told by a signal), and writes down each number that it
// is given.
import { appendFileSync } from 'node:fs';
import { setTimeout } from 'node:timers';

const load = (): void => void process.send?.({ type: 'loaded', handlers: [], faults: [], notes: [] });

process.on('message', ({ type, boot }: { type: string; boot: number }) => {
  if (type !== 'go') return;
  appendFileSync(process.env['NUMBERS'] ?? '', `${boot}\n`);
  process.send?.({ type: 'ready' });
});
process.once('disconnect', () => process.exit());
setTimeout(() => {}, 2 ** 30);
if (process.argv.includes('slow')) process.once('SIGUSR2', load);
else load();
// Last: a signal that comes in answer finds its listener.
process.send?.({ type: 'wake' });
