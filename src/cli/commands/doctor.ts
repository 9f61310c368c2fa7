// Checks everything that a delivery depends on, and names a remedy for every fault.
import { readEnv } from '../../config.ts';
import { parse, webAddress, type Command } from '../lib/command.ts';
import { clean, print, printJson } from '../lib/print.ts';
import { clock } from '../lib/store.ts';
import { address } from '../doctor/address.ts';
import { examine, exitOf, type Check, type Finding } from '../doctor/check.ts';
import { handlers } from '../doctor/handlers.ts';
import * as modules from '../doctor/modules.ts';
import { configuration, runtime, secrets } from '../doctor/setup.ts';
import { file, folder } from '../doctor/store.ts';
import { receiver, roundTrip } from '../doctor/trip.ts';

const { clocks, key, replay, contract, alarms, alerting, backups, server }: Partial<Record<string, Check>> = modules;
export const CHECKS = [
  runtime,
  configuration,
  folder,
  file,
  server,
  secrets,
  clocks,
  key,
  replay,
  contract,
  address,
  alarms,
  backups,
  alerting,
  receiver,
  roundTrip,
  handlers,
].filter((check) => check !== undefined);

export default {
  summary: 'check everything that a delivery depends on',
  usage: `doctor [--url http://…] [--json]
  --url   checks this address instead of PUBLIC_URL; http and loopback are allowed, to rehearse
  Sends webhook.ping events to the running receiver, ids doctor_…`,
  async run(args) {
    const { values } = parse(args, { text: ['url'], flags: ['json'], names: false });
    const url = webAddress('--url', values.url);
    const findings: Named[] = [];
    for await (const finding of examine(CHECKS, { env: readEnv(), url, clock })) {
      findings.push(finding);
      if (!values.json) show(finding);
    }
    if (values.json) printJson(findings.map(({ check, state, detail, remedy }) => ({ check, state, detail, remedy })));
    return exitOf(findings);
  },
} satisfies Command;

type Named = Finding & { check: string };

function show({ check, state, detail, remedy }: Named): void {
  print(`${state.padEnd(8)} ${check.padEnd(15)} ${clean(detail)}${remedy ? ` → ${clean(remedy)}` : ''}`);
}
