// Is everything in place for the real service? Goes through all that a delivery depends on, and names a remedy beside
// every fault.
import { readEnv, type Env } from '../../config.ts';
import { clean, clock, parse, print, printJson, webAddress, type Command } from '../lib/command.ts';
import { address } from '../doctor/address.ts';
import { examine, exitOf, type Check, type Finding } from '../doctor/check.ts';
import { handlers } from '../doctor/handlers.ts';
import { clocks, key, replay } from '../doctor/service.ts';
import { configuration, runtime, secrets } from '../doctor/setup.ts';
import { alarms, file, folder } from '../doctor/store.ts';
import { receiver, roundTrip } from '../doctor/trip.ts';

const CHECKS: Check[] = [
  runtime,
  configuration,
  folder,
  file,
  secrets,
  clocks,
  key,
  replay,
  address,
  alarms,
  receiver,
  roundTrip,
  handlers,
];

const command: Command = {
  summary: 'go through all that a delivery depends on, with a remedy for every fault',
  usage: `doctor [--url http://…] [--json]
  --url   goes through this address instead of PUBLIC_URL; http and loopback will do, for rehearsal
  Sends webhook.ping events to the running receiver, ids doctor_…`,
  async run(args) {
    const { values } = parse(args, { url: { type: 'string' }, json: { type: 'boolean' } }, { names: false });
    const url = webAddress('--url', values.url);
    const { findings, exit } = await diagnose(readEnv(), url, values.json ? () => {} : show);
    if (values.json) printJson(findings.map(({ check, state, detail, remedy }) => ({ check, state, detail, remedy })));
    return exit;
  },
};
export default command;

type Named = Finding & { check: string };

/** Everything that is found, told as it is found, and the exit code that it asks for. */
export async function diagnose(
  env: Env,
  url: string | undefined,
  tell: (finding: Named) => void,
): Promise<{ findings: Named[]; exit: number }> {
  const findings: Named[] = [];
  for await (const finding of examine(CHECKS, { env, url, clock })) {
    findings.push(finding);
    tell(finding);
  }
  return { findings, exit: exitOf(findings) };
}

function show({ check, state, detail, remedy }: Named): void {
  print(`${state.padEnd(8)} ${check.padEnd(15)} ${clean(detail)}${remedy ? ` → ${clean(remedy)}` : ''}`);
}
