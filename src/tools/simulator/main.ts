// `npm run service`: the simulated service, with which a team rehearses before it goes live. Commands come from the
// terminal.
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { describe, EXIT } from '../../base/errors.ts';
import { answerTo } from './console.ts';
import { startService } from './service.ts';

const USAGE = `npm run service -- [--url http://localhost:3000/webhooks] [--port 4000] [--secret whsec_…] [--key …]
    [--rate <events a minute>] [--chaos <events of 100 that go wrong>] [--speed <how much faster it retries>]`;
const text = (otherwise: string) => ({ type: 'string', default: otherwise }) as const;
const numbers = { port: text('4000'), speed: text('1'), rate: text('0'), chaos: text('0') };
const words = { url: text('http://localhost:3000/webhooks'), secret: text(''), key: text('') };

try {
  const { url, secret, key, rate, chaos, ...rest } = parseArgs({ options: { ...words, ...numbers } }).values;
  const service = await startService({
    url,
    port: Number(rest.port),
    speed: Number(rest.speed),
    // Cursors must not repeat, or a receiver would take these events for those of the last rehearsal.
    earlier: true,
    ...(secret && { secret }),
    ...(key && { key }),
    onAttempt({ cursor, type }, attempt, answer) {
      if (attempt > 1 || answer !== 204) print(`event ${cursor ?? type}, attempt ${attempt}: ${answer}`);
    },
    onDisabled: () => print('15 failures in a row: the webhook is off. Start the receiver, then type enable'),
  });
  print(`The simulated service delivers to ${url}. For the receiver's .env:`);
  print(`  WEBHOOK_SECRET=${service.secret}\n  API_BASE_URL=${service.url}\n  API_KEY=${service.key}`);
  print('Type help for the commands; Ctrl-C ends the service.');
  for (const command of [`rate ${rate}`, `chaos ${chaos}`])
    if (!command.endsWith(' 0')) print(answerTo(service, command));
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void service.stop().then(() => process.exit(EXIT.done)));
  // The service goes on after the end of the input, so that it can run without a terminal.
  createInterface({ input: process.stdin }).on('line', (line) => print(answerTo(service, line)));
} catch (error) {
  process.stderr.write(`${describe(error).message}\n${USAGE}\n`);
  process.exit(EXIT.usage);
}

function print(line: string): void {
  if (line) process.stdout.write(`${line}\n`);
}
