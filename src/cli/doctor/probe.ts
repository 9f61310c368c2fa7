// The deliveries that doctor makes: a `webhook.ping` without a cursor, id `doctor_<uuid>`, in spellings that a proxy
// which reads JSON would not give back. Each says that the kit sent it, and has arrived when the store holds exactly its
// bytes.
import { createHash, randomUUID } from 'node:crypto';
import { iso } from '../../base/clock.ts';
import { signedHeaders } from '../../wire/sign.ts';
import type { Store } from '../../store/store.ts';
import { SENT_BY_KIT } from '../../wire/event.ts';
import { loopbackUrl, post, type Answer } from '../lib/post.ts';
import type { Context } from './check.ts';

export interface Probe {
  /** What is special about it. */
  name: string;
  /** Its body around this id. */
  body: (id: string, at: string | null) => string;
  contentType?: string;
  secret?: string;
  /** How long ago it was signed, seconds. */
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
  async function send(url: string, { body: write, contentType, age = 0, ...probe }: Probe): Promise<Arrival> {
    const id = `doctor_${randomUUID()}`;
    const body = Buffer.from(write(id, iso(clock.now())));
    const headers = signedHeaders({
      body,
      secrets: [probe.secret ?? config.WEBHOOK_SECRET[0] ?? ''],
      type: 'webhook.ping',
      id,
      deliveryId: randomUUID(),
      attempt: 1,
      timestampSeconds: Math.floor(clock.now() / 1000) - age,
      prefix: config.WEBHOOK_HEADER_PREFIX,
    });
    const answer = await post(url, body, contentType ? { ...headers, 'Content-Type': contentType } : headers);
    const stored = answer.status === 204 ? await store.body(id) : null;
    return { ...answer, arrived: stored !== null && digest(stored) === digest(body) };
  }

  /** Sends it again, and tells why the receiver refused it: the causes that it has counted meanwhile. */
  async function causesOf(url: string, probe: Probe): Promise<string[]> {
    const counted = async (): Promise<Record<string, number>> => {
      // What was counted is written with the next commit.
      await send(loopbackUrl(config), PLAIN);
      return store.counters();
    };
    const before = await counted();
    await send(url, probe);
    const after = Object.entries(await counted());
    return after.flatMap(([name, n]) =>
      name.startsWith('refused.') && n > (before[name] ?? 0) ? [name.slice('refused.'.length)] : [],
    );
  }

  return { send, causesOf };
}

export type Prober = ReturnType<typeof createProber>;

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
