// Sends signed deliveries as fast as they are answered, or so many a second, over kept connections, one at a time on each.
// Everything is signed before the first is sent, so that the sender costs as little as it can.
import { createHmac } from 'node:crypto';
import { connect } from 'node:net';

const [port = 0, count = 0, connections = 0, lanes = 1, perSecond = Infinity, first = 1_000_000] = process.argv
  .slice(2)
  .map(Number);
const secret = process.env['WEBHOOK_SECRET'] ?? '';
const timestamp = Math.floor(Date.now() / 1000);
const requests = Array.from({ length: count }, (_, n) => request(n));
const statuses: Record<string, number> = {};
/** From when each was due to its answer, milliseconds. */
const waits: number[] = [];
let next = 0;

process.stdout.write('prepared\n');
process.stdin.once('data', () => {
  const started = performance.now();
  for (let i = 0; i < connections; i++) {
    const socket = connect(port, '127.0.0.1', () => send());
    let due = 0;
    const send = (): void => {
      const one = requests[next];
      due = perSecond === Infinity ? performance.now() : started + (next * 1_000) / perSecond;
      next++;
      if (!one) socket.end();
      else if (perSecond === Infinity) socket.write(one);
      else setTimeout(() => socket.write(one), Math.max(0, due - performance.now()));
    };
    socket.setNoDelay(true);
    socket.on('data', (chunk) => {
      const status = chunk.toString('latin1', 9, 12);
      statuses[status] = (statuses[status] ?? 0) + 1;
      waits.push(performance.now() - due);
      send();
      if (waits.length < count) return;
      const [p50, p99] = [0.5, 0.99].map((share) => waits.toSorted((a, b) => a - b)[Math.floor(count * share)]);
      process.stdout.write(`${JSON.stringify({ ms: performance.now() - started, statuses, p50, p99 })}\n`);
      process.exit(0);
    });
  }
});

/** About 1 KB; ids are random, as their index is then at its dearest. */
function request(n: number): Buffer {
  const session = `00000000-0000-4000-8000-${String(n % 16).padStart(12, '0')}`;
  const message = {
    session_id: session,
    from: `person-${(n * 7919) % lanes}`,
    body: 'x'.repeat(560),
    message_id: `m-${n}`,
    is_group: false,
    timestamp_unix_ms: Date.now(),
    message_type: 'text',
    push_name: 'Ana',
  };
  const body = JSON.stringify({
    id: createHmac('sha1', 'id')
      .update(String(first + n))
      .digest('hex')
      .slice(0, 36),
    type: 'MessageReceived',
    created_at: new Date().toISOString(),
    cursor: String(first + n),
    session_id: session,
    webhook_id: 'w',
    data: { MessageReceived: message },
  });
  const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex');
  const head = [
    'POST /webhooks HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/json',
    `X-Svc-Timestamp: ${timestamp}`,
    `X-Svc-Signature: v1=${signature}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}
