// A child process for tests. It gives one sign of life, reports that it has loaded (with `slow`: after a signal), and
// records each boot number that it gets.
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
// Sent last: a test that signals this process after this message finds its listener in place.
process.send?.({ type: 'wake' });
