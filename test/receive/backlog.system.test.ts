// A crowd that connects while the receive process does not get to accept: real process, real sockets.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { createKit, deliver, makeEvent, until } from '../system/kit.ts';

const CROWD = 1_500;
const allowed = Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));

test.skipIf(allowed < CROWD)('a crowd that connects while the process stands keeps no delivery waiting', async () => {
  const kit = await createKit();
  try {
    await kit.start();
    kit.signal('SIGSTOP');
    const sockets = Array.from({ length: CROWD }, () => connect(kit.port, '127.0.0.1'));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const delivery = deliver(kit, makeEvent(1));
    // In a full queue, this delivery would be seen only after retries of the system, some seconds later.
    await until(() => queued(kit.port) > CROWD);
    kit.signal('SIGCONT');
    expect(await delivery).toBe(204);
    for (const socket of sockets) socket.destroy();
  } finally {
    kit.signal('SIGCONT');
    await kit.stop();
    await kit.remove();
  }
});

/** Connections that wait to be accepted at a port of this machine. */
function queued(port: number): number {
  const listening = `:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A `;
  const line = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .find((row) => row.includes(listening));
  return Number.parseInt(line?.split(listening)[1]?.slice(9, 17) ?? '0', 16);
}
