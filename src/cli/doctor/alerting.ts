// The alarms that are raised, and whether ALERT_URL and HEARTBEAT_URL can be reached. Nothing is sent: a post would be
// read by people, and a ping would be taken for a kit that works. Their addresses hold secrets, so none is shown.
import { once } from 'node:events';
import { connect, isIP } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import type { Config } from '../../config.ts';
import type { Alarm } from '../../store/read.ts';
import { readiness, withStore } from '../lib/store.ts';
import { ok, skipped, warning, type Check, type Finding } from './check.ts';

const NAMES = ['ALERT_URL', 'HEARTBEAT_URL'] as const;
const LIMIT_MS = 5_000;

export const alarms: Check = {
  name: 'alarms',
  needs: ['DATABASE_URL', 'PORT'],
  after: ['store file'],
  async run({ config }) {
    const { state } = await readiness(config);
    const { alarms: raised } = await withStore((store) => store.read.status(store.now()), config);
    const all = [...(state?.alarms ?? []), ...raised];
    return all.length === 0 ? ok('none is raised') : all.map(warningOf);
  },
  /** The alarms about a broken store are in the receiver's memory, so this asks the receiver. */
  async groundless({ config }) {
    const { state, listens, words } = await readiness(config);
    const broken = 'the store has a fault';
    if (state) return [...state.alarms.map(warningOf), skipped(`${broken}: the ops page (OPS_PORT) shows the others`)];
    return skipped(`${broken}, and ${listens ? 'what listens on PORT is not the receiver of this store' : words}`);
  },
};

function warningOf({ name, detail }: Alarm): Finding {
  return warning(`${name}: ${detail}`, 'see src/ops/runbook.md, under its name');
}

export const alerting: Check = {
  name: 'alerting',
  needs: [...NAMES],
  run: ({ config }) => Promise.all(NAMES.map((name) => judge(name, config))),
};

async function judge(name: (typeof NAMES)[number], { [name]: url }: Config): Promise<Finding> {
  if (url === undefined) return skipped(`${name} is not set`);
  const fault = await reach(new URL(url));
  if (fault) return warning(`${name} cannot be reached (${fault})`, 'fix the address, the DNS or the firewall');
  return ok(`${name} can be reached. npx kit alert test tries it`);
}

/** Resolves to the code of the error, or undefined. */
async function reach({ protocol, hostname, port }: URL): Promise<string | undefined> {
  const host = hostname.replace(/^\[|\]$/g, '');
  const isSecure = protocol === 'https:';
  const to = { host, port: Number(port) || (isSecure ? 443 : 80) };
  const socket = isSecure ? connectSecurely({ ...to, servername: isIP(host) ? '' : host }) : connect(to);
  try {
    await once(socket, isSecure ? 'secureConnect' : 'connect', { signal: AbortSignal.timeout(LIMIT_MS) });
    return undefined;
  } catch (error) {
    const { code } = error as { code?: unknown };
    return typeof code === 'string' && code !== 'ABORT_ERR' ? code : 'no answer';
  } finally {
    socket.destroy();
  }
}
