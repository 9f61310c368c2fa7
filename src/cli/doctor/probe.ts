// The deliveries of `doctor`: `webhook.ping` events without a cursor, with an id `doctor_<uuid>`. Some bodies are
// unusual JSON, which a proxy that parses bodies changes. A delivery has arrived if the store holds exactly its bytes.
import { randomUUID } from 'node:crypto';
import { iso } from '../../base/clock.ts';
import { refusalsIn, type RefusalName } from '../../receive/causes.ts';
import type { Store } from '../../store/store.ts';
import { SENT_BY_KIT } from '../../wire/event.ts';
import { deliver, loopbackUrl, type Answer } from '../lib/post.ts';
import type { Context } from './check.ts';

export interface Probe {
  name: string;
  /** Writes a body with this id and time. */
  body: (id: string, at: string | null) => string;
  contentType?: string;
  secret?: string;
  /** Age of the signature in seconds. */
  age?: number;
}

export type Arrival = Answer & { arrived: boolean };

const LARGE = 1024 * 1024 + 64 * 1024;

export const PLAIN: Probe = {
  name: 'as the service writes it',
  body: (id, at) => JSON.stringify(ping(id, at, 'doctor')),
};
export const UNUSUAL: Probe[] = [
  {
    name: 'with unusual spacing, escapes and a newline at its end',
    body: (id, at) =>
      `${JSON.stringify(ping(id, at, 'é \u{1f600} /'), null, '\t').replace('é', String.raw`\u00e9\/`)} \r\n`,
  },
  { name: 'of more than 1 MiB', body: (id, at) => JSON.stringify(ping(id, at, 'x'.repeat(LARGE))) },
  { ...PLAIN, name: 'with an unusual content type', contentType: 'application/vnd.doctor+json' },
];

function ping(id: string, at: string | null, message: string): object {
  const rest = { cursor: null, session_id: null, webhook_id: 'doctor', sent_by: SENT_BY_KIT };
  return { id, type: 'webhook.ping', created_at: at, ...rest, data: { message } };
}

export function createProber({ config, clock }: Context, store: Store) {
  async function send(url: string, { body: write, contentType, age = 0, secret }: Probe): Promise<Arrival> {
    const id = `doctor_${randomUUID()}`;
    const body = Buffer.from(write(id, iso(clock.now())));
    const answer = await deliver(url, {
      body,
      id,
      type: 'webhook.ping',
      secret: secret ?? config.WEBHOOK_SECRET[0] ?? '',
      prefix: config.WEBHOOK_HEADER_PREFIX,
      timestampSeconds: Math.floor(clock.now() / 1000) - age,
      contentType,
    });
    const stored = answer.status === 204 ? await store.read.body(id) : null;
    return { ...answer, arrived: stored !== null && body.equals(stored) };
  }

  /** Sends the probe again. Returns the causes of refusal that the receiver counted meanwhile. */
  async function causesOf(url: string, probe: Probe): Promise<RefusalName[]> {
    const counted = async (): Promise<Map<string, number>> => {
      // The receiver writes its counters with its next commit, which this delivery causes.
      await send(loopbackUrl(config), PLAIN);
      return refusalsIn(await store.read.counters());
    };
    const before = await counted();
    await send(url, probe);
    const after = [...(await counted())].filter(([cause, n]) => n > (before.get(cause) ?? 0));
    return after.map(([cause]) => cause as RefusalName);
  }

  return { send, causesOf };
}

export type Prober = ReturnType<typeof createProber>;
