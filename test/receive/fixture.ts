// The receiver over real HTTP, on a store that the test makes fail.
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { createReceiver } from '../../src/receive/receiver.ts';
import { StoreError, type Counts, type StoreCode } from '../../src/store/store.ts';
import type { Reading } from '../../src/wire/event.ts';

export const SECRET = 'whsec_one';

export async function startReceiver(env: Record<string, string> = {}) {
  const accepted: Reading[] = [];
  const counts: Counts = {};
  const state: Record<string, unknown> = {};
  const time = { now: 1_800_000_000_000, monotonic: 0 };
  let failure: StoreCode | undefined;
  let held: Promise<void> | undefined;
  const told = { reopened: 0, madeRoom: 0 };
  const receiver = createReceiver({
    config: loadConfig({ WEBHOOK_SECRET: SECRET, ...env }),
    clock: { now: () => time.now, monotonic: () => time.monotonic },
    log: pino({ level: 'silent' }),
    store: {
      ingest: {
        async accept(batch) {
          await held;
          if (failure) throw new StoreError(failure, 'as the test wants');
          accepted.push(...batch.readings);
          for (const [name, n] of Object.entries(batch.counts ?? {})) counts[name] = (counts[name] ?? 0) + n;
          Object.assign(state, batch.state);
          return batch.readings.map((reading) => ('event' in reading ? 'new' : 'quarantined'));
        },
      },
    },
    onCommit() {},
    isReplaced: () => false,
    reopen: () => void told.reopened++,
    makeRoom: () => void told.madeRoom++,
  });
  receiver.server.listen(0, '127.0.0.1');
  await once(receiver.server, 'listening');
  const { port } = receiver.server.address() as AddressInfo;
  onTestFinished(async () => {
    receiver.server.closeAllConnections();
    if (receiver.server.listening) await receiver.drain();
  });

  function headers(body: Buffer, { secret = SECRET, at = time.now / 1_000 } = {}): Record<string, string> {
    const hex = createHmac('sha256', secret).update(`${at}.`).update(body).digest('hex');
    return { 'x-svc-timestamp': String(at), 'x-svc-signature': `v1=${hex}` };
  }

  interface Asked {
    method?: string;
    path?: string;
    headers?: Record<string, string | string[]>;
  }

  /** Resolves with the answer, whose body is read. */
  function ask(
    body: Buffer,
    { method = 'POST', path = '/webhooks', headers: own = headers(body) }: Asked = {},
  ): Promise<IncomingMessage & { text: string }> {
    return new Promise((resolve, reject) => {
      const length = 'transfer-encoding' in own ? {} : { 'content-length': String(body.length) };
      const req = request({ port, agent: false, method, path, headers: { ...length, ...own } }, (answer) => {
        let text = '';
        answer
          .on('data', (part: Buffer) => (text += part.toString()))
          .on('end', () => resolve(Object.assign(answer, { text })));
      });
      req.on('error', reject);
      req.end(body);
    });
  }

  /** The first line of the answer to these bytes; or to those that are sent after the first answer. */
  async function raw(bytes: string, after?: string): Promise<string> {
    const socket = connect(port, '127.0.0.1');
    socket.write(bytes);
    if (after !== undefined) {
      await once(socket, 'data');
      socket.write(after);
    }
    let text = '';
    for await (const part of socket) text += String(part);
    return text.split('\r\n')[0] ?? '';
  }

  return {
    receiver,
    accepted,
    counts,
    state,
    time,
    told,
    headers,
    ask,
    raw,
    port,
    fail: (code: StoreCode | undefined) => (failure = code),
    hold: (until: Promise<void>) => (held = until),
  };
}

export function bodyOf(fields: Record<string, unknown> = {}): Buffer {
  const event = {
    id: 'evt_1',
    type: 'MessageReceived',
    cursor: '7',
    session_id: null,
    created_at: '2027-01-15T08:00:00Z',
    data: { MessageReceived: {} },
  };
  return Buffer.from(JSON.stringify({ ...event, ...fields }));
}
