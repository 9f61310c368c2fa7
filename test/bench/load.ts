// Sends signed deliveries over kept connections, one at a time on each, at full speed or at a given rate. All requests
// are signed in advance, so that sending costs little. The program prints a line when it is prepared, one after the
// warm-up, and the measurements at the end.
import { createHmac } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';

export interface Load {
  port: number;
  /** The headers that the server expects: those of the service or those of standardwebhooks. */
  scheme: 'service' | 'standard';
  secret: string;
  /** Requests before the measurement, sent at full speed. */
  warm: number;
  count: number;
  /** Requests per second. Null: each connection sends as soon as it has its answer. */
  rate: number | null;
  connections: number;
  /** The number of conversations that the events are spread over. */
  lanes: number;
  /** The number of the first event. Events with lower numbers are stored already. */
  first: number;
}

export interface Seen {
  ms: number;
  /** Milliseconds from the planned time of sending until the answer: median and 99th percentile. */
  p50: number;
  p99: number;
}

const load = JSON.parse(process.argv[2] ?? '') as Load;
const timestamp = Math.floor(Date.now() / 1000);
const requests = Array.from({ length: load.warm + load.count }, (_, n) => requestOf(load.first + n));
console.log('prepared');
await once(process.stdin, 'data');
await send(0, load.warm, null);
console.log('warm');
await once(process.stdin, 'data');
console.log(JSON.stringify(await send(load.warm, requests.length, load.rate)));
process.exit(0);

function send(from: number, upTo: number, rate: number | null): Promise<Seen> {
  const started = performance.now();
  const took: number[] = [];
  const idle: (() => void)[] = [];
  const sockets: Socket[] = [];
  let next = from;
  const { promise, resolve, reject } = Promise.withResolvers<Seen>();
  if (from === upTo) resolve({ ms: 0, p50: 0, p99: 0 });

  /** The planned time of sending request `n`, by performance.now(), even if no connection is free at that time. */
  function dueAt(n: number): number {
    return rate === null ? performance.now() : started + ((n - from) * 1000) / rate;
  }

  function open(): void {
    const socket = connect(load.port, '127.0.0.1', () => go(socket));
    socket.setNoDelay(true).on('error', reject);
    sockets.push(socket);
    let due = 0;
    function go(on: Socket): void {
      if (next >= upTo) return;
      due = dueAt(next);
      if (due > performance.now()) idle.push(() => go(on));
      else on.write(requests[next++] ?? '');
    }
    socket.on('data', (chunk) => {
      took.push(performance.now() - due);
      if (chunk.toString('latin1', 9, 12) !== '204')
        reject(new Error(`answered with ${chunk.toString('latin1', 0, 40)}`));
      if (took.length < upTo - from) return go(socket);
      const sorted = took.toSorted((a, b) => a - b);
      resolve({ ms: performance.now() - started, p50: at(sorted, 0.5), p99: at(sorted, 0.99) });
    });
  }
  for (let i = 0; i < load.connections; i++) open();
  const timer = setInterval(() => {
    for (const go of idle.splice(0)) go();
  }, 1);
  return promise.finally(() => {
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
  });
}

function at(sorted: number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? 0;
}

/** About 1 KB. Ids are random, which is the most expensive case for their index. */
function requestOf(n: number): Buffer {
  const session = `00000000-0000-4000-8000-${String(n % 16).padStart(12, '0')}`;
  const id = createHmac('sha1', 'id').update(String(n)).digest('hex').slice(0, 36);
  const message = {
    session_id: session,
    from: `person-${(n * 7919) % load.lanes}`,
    body: 'x'.repeat(560),
    message_id: `m-${n}`,
    is_group: false,
    timestamp_unix_ms: Date.now(),
    message_type: 'text',
    push_name: 'Ana',
  };
  const body = JSON.stringify({
    id,
    type: 'MessageReceived',
    created_at: new Date().toISOString(),
    cursor: String(1_000_000 + n),
    session_id: session,
    webhook_id: 'w',
    data: { MessageReceived: message },
  });
  const head = [
    'POST /webhooks HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...signatureOf(id, body),
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

function signatureOf(id: string, body: string): string[] {
  if (load.scheme === 'service') {
    const mac = createHmac('sha256', load.secret).update(`${timestamp}.${body}`).digest('hex');
    return [`X-Svc-Timestamp: ${timestamp}`, `X-Svc-Signature: v1=${mac}`];
  }
  const key = Buffer.from(load.secret.slice('whsec_'.length), 'base64');
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return [`webhook-id: ${id}`, `webhook-timestamp: ${timestamp}`, `webhook-signature: v1,${mac}`];
}
