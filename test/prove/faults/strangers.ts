// A process with a crowd of strangers, started by crowd.ts. Each stranger connects, misbehaves in its own way, and comes
// again some seconds after its connection has ended. Sends its counts each second.
import { connect, type Socket } from 'node:net';

export interface Crowd {
  count: number;
  /** How many of each kind come. */
  shares: Record<string, number>;
  /** The time after which a stranger comes again, milliseconds. */
  againMs: number;
}

/** Each process has an address of its own, and with it ports of its own. */
const [address, crowded] = process.argv.slice(3) as [string, string];
const port = Number(process.argv[2]);
const { count, shares, againMs } = JSON.parse(crowded) as Crowd;
/** They come within this time, so that the sender itself keeps up. */
const COME_MS = 5_000;
const POST = 'POST /webhooks HTTP/1.1\r\nHost: x\r\n';
const MB = Buffer.alloc(2 ** 20, 0x20);

const claim = (): string =>
  `X-Svc-Timestamp: ${Math.floor(Date.now() / 1000)}\r\nX-Svc-Signature: v1=${'0'.repeat(64)}\r\n`;
const head = (length: number): string => `${POST}${claim()}Content-Length: ${length}\r\n\r\n`;

/** What a stranger does once it is connected. */
const KINDS: Record<string, (socket: Socket) => void> = {
  idle() {},
  'slow headers': (socket) => drip(socket, `${POST}X-Slow: `),
  'slow bodies': (socket) => drip(socket, head(5_000)),
  'large bodies'(socket) {
    socket.write(head(12 * MB.length));
    let left = 11;
    const more = (): void => {
      while (left > 0 && socket.writable && socket.write(MB)) left--;
    };
    socket.on('drain', more);
    more();
  },
  aborts(socket) {
    socket.write(`${head(5_000)}begun`);
    setTimeout(() => socket.resetAndDestroy(), 100);
  },
  pipelines(socket) {
    socket.pause();
    socket.write('GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(50));
  },
};
const crowd = Object.entries(shares).flatMap(([kind, share]) => Array<string>(share).fill(kind));

const seen = { open: 0, most: 0, connected: 0, failed: 0 };

function drip(socket: Socket, words: string): void {
  socket.write(words);
  const timer = setInterval(() => void (socket.writable && socket.write('x')), 2_000);
  socket.on('close', () => clearInterval(timer));
}

function come(kind: string): void {
  const socket = connect({ port, host: '127.0.0.1', localAddress: address });
  let connected = false;
  socket.on('connect', () => {
    connected = true;
    seen.connected++;
    seen.most = Math.max(seen.most, ++seen.open);
    KINDS[kind]?.(socket);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    if (connected) seen.open--;
    else seen.failed++;
    setTimeout(come, againMs * (0.5 + Math.random()), kind);
  });
  if (kind !== 'pipelines') socket.resume();
}

for (let n = 0; n < count; n++) setTimeout(come, (n / count) * COME_MS, crowd[n % crowd.length] ?? 'idle');
setInterval(() => process.send?.(seen), 1_000);
process.on('disconnect', () => process.exit());
