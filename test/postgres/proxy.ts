// A network between an instance and the server that can be cut, silent or slow.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export type Proxy = Awaited<ReturnType<typeof createProxy>>;

/** `url`: the server behind it. */
export async function createProxy(url: string) {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  /** The number of delayed writes to a socket that are under way. */
  const under = new Map<Socket, number>();
  let mode: 'pass' | 'cut' | 'silent' = 'pass';
  let delayMs = 0;

  const server = createServer((client) => {
    if (mode === 'cut') {
      client.destroy();
      return;
    }
    const behind = connect(Number(port), hostname);
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on('error', () => {});
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      from.on('data', (bytes: Buffer) => {
        // What comes while it is silent is lost, as if the packets were.
        if (mode === 'silent') return;
        const send = (): boolean => to.writable && to.write(bytes);
        // Even a timer of 0 ms takes a millisecond. While delayed bytes are under way, later ones wait behind them.
        if (delayMs === 0 && under.get(to) === undefined) send();
        else {
          under.set(to, (under.get(to) ?? 0) + 1);
          setTimeout(() => {
            send();
            const left = (under.get(to) ?? 1) - 1;
            if (left > 0) under.set(to, left);
            else under.delete(to);
          }, delayMs);
        }
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const through = new URL(url);
  through.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    url: through.href,
    pass(): void {
      mode = 'pass';
    },
    /** Ends all connections, and refuses new ones. */
    cut(): void {
      mode = 'cut';
      for (const socket of sockets) socket.destroy();
    },
    /** Connections stay open, and nothing passes. */
    silence(): void {
      mode = 'silent';
    },
    delay(ms: number): void {
      delayMs = ms;
    },
    close(): void {
      this.cut();
      server.close();
    },
  };
}
