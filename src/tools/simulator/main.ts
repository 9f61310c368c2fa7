// The simulator as a program (npm run service), with which a team rehearses its go-live. It listens only on localhost
// and reads commands from standard input.
import '../../base/node/checked.js';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { systemClock as clock } from '../../base/clock.ts';
import { describe, EXIT } from '../../base/errors.ts';
import { startLoop } from '../../base/loop.ts';
import { createSaving, readAccount, restoreAccount } from './account.ts';
import { createConsole } from './console.ts';
import { writeEnv } from './env-file.ts';
import { Refusal } from './refusal.ts';
import { createSimulatedService } from './service.ts';

const USAGE = `npm run service -- [--port 4000] [--url http://localhost:3000/webhooks [--secret whsec_…]]
    [--rate <events a minute>] [--chaos <seed>] [--speed <divisor of the waits>]
    [--account data/service.json] [--new] [--env]
  The account is kept in its file; --new begins another. --env writes what the receiver needs to .env`;

const SAVE_MS = 1_000;

const { values } = read();
const port = number('port', values.port, 4_000);
const rate = number('rate', values.rate, 0);
const speed = number('speed', values.speed, 1);
const seed = number('chaos', values.chaos, 1);
if (speed <= 0 || port > 65_535) wrong('--speed must be above 0, --port at most 65535');
if (values.secret !== undefined && !values.url) wrong('--secret needs --url');

const started = clock.now();
const account = values.new ? undefined : accountOf(values.account);
const service = createSimulatedService({
  seed: started,
  // Each rehearsal has higher cursors than earlier ones, so that a receiver with the same store does not drop new
  // events as duplicates.
  firstCursor: BigInt(started) * 1_000_000n,
  ...(account && { numbers: account.numbers, past: account.past }),
  speed,
  addresses: { loopback: true },
  chaos: { seed, on: values.chaos !== undefined },
  onAttempt({ event, attempt, answer }) {
    if (event.type === 'webhook.ping') print(`ping, attempt ${attempt}: ${answer}`);
  },
  onDisabled: (reason) => print(`${reason}. Nothing is delivered any more: start the receiver, then type enable`),
});
const known = account && (await restoreAccount(service, account));
const scopes = ['sessions:read', 'groups:read', 'events:read', 'messages:send', 'product:inbox'];
const key = known ?? service.keys.create({ name: 'rehearsal', scopes, validDays: 30 }).key;
const answer = createConsole(service, key);
const save = createSaving(values.account, service, account?.apiKey);

const base = await service.listen(port).catch((error: unknown) => wrong(`--port ${port}: ${describe(error).message}`));
const receiver = { API_BASE_URL: base, API_KEY: service.keys.lastSecret() || (account?.apiKey ?? '') };
const lines = Object.entries(receiver).map(([name, value]) => `\n  ${name}=${value}`);
print(`The simulated service. For the receiver's .env:${lines.join('')}`);
if (known) print(`This is the account of ${values.account}, with its webhooks and history; another: --new`);
print(`The key has the scopes ${key.attributes.scopes.join(', ')}. Type key for its settings.`);
print(`Invented answers (x-invented), because the contract only names them: ${service.invented.join(', ')}`);
if (values.url) await registerAtOnce(values.url, values.secret);
if (values.env) {
  const secret = service.webhooks.all().at(-1)?.secret();
  print(writeEnv('.env', { ...receiver, ...(secret && { WEBHOOK_SECRET: secret }) }));
}
startLoop(() => {
  save();
  return SAVE_MS;
});
if (rate > 0) service.run(rate);
print('Type help for the commands; Ctrl-C stops the simulator.');

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void end());
// The program goes on after the end of the input, so that it can run without a terminal.
for await (const line of createInterface({ input: process.stdin })) {
  const said = await answer(line);
  if (said) print(said);
}

async function registerAtOnce(url: string, secret: string | undefined): Promise<void> {
  if (service.webhooks.all().some((one) => URL.canParse(url) && one.url === new URL(url).href))
    return print(`registered before: ${url}`);
  if (secret === undefined) return print(await answer(`register ${url}`));
  try {
    await service.webhooks.register(key, { url, secret });
    print(`registered ${url} with the given secret`);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    print(`refused: ${error.status} ${error.reason}: ${error.message}`);
  }
}

async function end(): Promise<never> {
  save();
  await service.close();
  process.exit(EXIT.done);
}

function read() {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const file = { type: 'string', default: 'data/service.json' } as const;
  const texts = { port: text, url: text, secret: text, rate: text, chaos: text, speed: text };
  const options = { ...texts, account: file, new: flag, env: flag };
  try {
    return parseArgs({ options });
  } catch (error) {
    return wrong(describe(error).message);
  }
}

function accountOf(file: string): ReturnType<typeof readAccount> {
  try {
    return readAccount(file);
  } catch (error) {
    return wrong(describe(error).message);
  }
}

function number(name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : wrong(`--${name} takes a number`);
}

function wrong(what: string): never {
  process.stderr.write(`${what}\n${USAGE}\n`);
  process.exit(EXIT.usage);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
