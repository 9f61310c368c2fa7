// E84, F48, F49 and two network faults without a number: crowds of strangers and slow clients, and a proxy that delays,
// cuts, drips and swallows data.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createRandom } from '../../../src/tools/random.ts';
import { hasCaddy, startCaddy } from '../../system/caddy.ts';
import { deliver, makeEvent } from '../../system/kit.ts';
import type { Crowd } from './strangers.ts';
import { eventually, Lacking, stage, type Fault, type Scene } from './scene.ts';
import { tested } from './tools.ts';

/** The bytes that each slow client sends first. */
const SLOW = {
  'slow headers': 'POST /webhooks HTTP/1.1\r\nHost: x\r\nX-Slow: ',
  'slow bodies': `POST /webhooks HTTP/1.1\r\nHost: x\r\nX-Svc-Timestamp: ${Math.floor(Date.now() / 1000)}\r\nX-Svc-Signature: v1=${'0'.repeat(64)}\r\nContent-Length: 5000\r\n\r\n`,
  'slow readers': 'GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(500),
};

type Manner = (from: Socket, to: Socket, random: () => number) => void;

/** How the proxy treats a connection. */
const MANNERS: Record<string, Manner> = {
  whole: (from, to) => void from.pipe(to).pipe(from),
  delays(from, to, random) {
    const ms = 50 + random() * 500;
    from.on('data', (chunk) => void setTimeout(() => to.destroyed || to.write(chunk), ms));
    to.on('data', (chunk) => void setTimeout(() => from.destroyed || from.write(chunk), ms));
  },
  drips(from, to) {
    to.pipe(from);
    let last = Promise.resolve();
    from.on('data', (chunk: Buffer) => {
      for (let at = 0; at < chunk.length; at += 64)
        last = last.then(() => sleep(5)).then(() => void (to.destroyed || to.write(chunk.subarray(at, at + 64))));
    });
  },
  'cuts the request': (from, to, random) =>
    void from.once('data', (chunk: Buffer) => {
      to.write(chunk.subarray(0, Math.floor(random() * chunk.length)));
      setTimeout(() => [from, to].map((socket) => socket.resetAndDestroy()), 20);
    }),
  'cuts the answer'(from, to) {
    from.pipe(to);
    to.once('data', () => [from, to].map((socket) => socket.resetAndDestroy()));
  },
  'swallows the request': (from) => void from.resume(),
  'swallows the answer'(from, to) {
    from.pipe(to, { end: false });
    to.resume();
  },
};

async function startProxy(
  port: number,
  random: () => number,
): Promise<{ port: number; tally: Map<string, number>; close(): void }> {
  const tally = new Map<string, number>();
  const sockets = new Set<Socket>();
  const names = Object.keys(MANNERS);
  const server = createServer((from) => {
    const name = names[Math.floor(random() * names.length)] ?? 'whole';
    tally.set(name, (tally.get(name) ?? 0) + 1);
    const to = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        if (name !== 'swallows the answer') other.destroy();
      });
    }
    MANNERS[name]?.(from, to, random);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    tally,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

const CROWD = { count: 15_000, againMs: 30_000 };
const SENDERS = 3;
const CROWDED_MS = 15_000;
const LATE_MS = 5_000;
const MOST_MB = 300;

interface Seen {
  open: number;
  most: number;
  connected: number;
  failed: number;
}

/** Most of a crowd is cheap for its sender. */
const USUAL = {
  idle: 50,
  'slow headers': 20,
  'slow bodies': 20,
  'large bodies': 1,
  aborts: 5,
  pipelines: 4,
};
const EQUAL = Object.fromEntries(Object.keys(USUAL).map((kind) => [kind, 1]));

/** Processes with strangers. They have come when as many have connected. */
function startStrangers(port: number, crowd: Crowd) {
  const file = fileURLToPath(new URL('strangers.ts', import.meta.url));
  const seen: Seen[] = [];
  const children = Array.from({ length: SENDERS }, (_, n) => {
    const own = { ...crowd, count: crowd.count / SENDERS };
    const child = fork(file, [String(port), `127.0.0.${n + 2}`, JSON.stringify(own)]);
    child.on('message', (counts: Seen) => void (seen[n] = counts));
    return child;
  });
  return {
    sum: (name: keyof Seen): number => seen.reduce((sum, counts) => sum + counts[name], 0),
    stop: () => children.forEach((child) => child.kill('SIGKILL')),
  };
}

/** 100 small and 5 large deliveries a second among the strangers, to the receiver or to the proxy before it. */
async function among(scene: Scene, crowd: Crowd, port = scene.kit.port, middleMs = LATE_MS): Promise<string> {
  const strangers = startStrangers(port, crowd);
  const agent = new Agent({ keepAlive: false });
  const large = 'x'.repeat(300 * 1024);
  const times: number[] = [];
  const pending: Promise<void>[] = [];
  const stretch = stretchOf(scene.kit.main());
  let most = 0;
  const send = async (body?: string): Promise<void> => {
    const began = performance.now();
    await scene.send({ port, agent }, body);
    times.push(performance.now() - began);
  };
  try {
    const came = await eventually(() => strangers.sum('connected') + strangers.sum('failed') >= crowd.count, 60_000);
    scene.holds(came, `only ${strangers.sum('connected')} strangers came`);
    for (const end = performance.now() + CROWDED_MS; performance.now() < end; await sleep(200)) {
      for (let n = 0; n < 20; n++) pending.push(send());
      pending.push(send(large));
      most = Math.max(most, memoryOf(scene.kit.main()));
    }
    await Promise.all(pending);
  } finally {
    strangers.stop();
  }
  const slowest = Math.round(Math.max(...times));
  const middle = Math.round(times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0);
  const slower = stretch();
  scene.holds(slowest < LATE_MS * slower, `a delivery waited ${slowest} ms`);
  scene.holds(middle < middleMs * slower, `the median is ${middle} ms`);
  scene.holds(most < MOST_MB, `the main process had ${most} MB`);
  return `${strangers.sum('connected')} connections, at most ${strangers.sum('most')} open at the senders; ${times.length} deliveries, median ${middle} ms, slowest ${slowest} ms; memory ${most} MB; its work took ${slower.toFixed(1)} times as long for want of a core`;
}

export const crowd: Fault[] = [
  {
    numbers: [],
    what: 'E84: 15,000 strangers of every kind, who come again, beside 100 small and 5 large deliveries a second',
    produce: () => stage({}, (scene) => among(scene, { ...CROWD, shares: USUAL })),
  },
  {
    numbers: [],
    what: 'E84: 15,000 strangers, as many of each kind',
    produce: () => stage({}, (scene) => among(scene, { ...CROWD, shares: EQUAL })),
  },
  {
    numbers: [],
    what: 'E84: 15,000 strangers before the proxy of compose.yaml',
    produce: () =>
      stage({}, async (scene) => {
        if (!hasCaddy()) throw new Lacking('caddy (Debian: caddy)');
        const caddy = await startCaddy(scene.kit);
        try {
          return await among(scene, { ...CROWD, shares: USUAL }, caddy.port);
        } finally {
          await caddy.stop();
        }
      }),
  },
  {
    numbers: [],
    what: 'E86: a flood of bodies that are aborted: the median stays below 200 ms',
    produce: () =>
      stage({}, (scene) =>
        among(scene, { count: flood(600), shares: { aborts: 1 }, againMs: 100 }, scene.kit.port, 200),
      ),
  },
  {
    numbers: [48],
    what: '1,000 copies of one event at once',
    produce: () =>
      stage({}, async (scene) => {
        const { kit } = scene;
        const answers = await Promise.all(Array.from({ length: 1_000 }, () => deliver(kit, makeEvent(0))));
        const others = answers.filter((status) => status !== 204);
        scene.holds(others.length === 0, `${others.length} others than 204`);
        scene.acknowledged.add('evt_0');
        await eventually(() => kit.query('select * from seen').length > 0);
        const rows = kit.query<{ copies: number }>('select copies from events');
        scene.holds(rows.length === 1 && rows[0]?.copies === 999, `${rows.length} rows, ${rows[0]?.copies} copies`);
        return '1,000 × 204, one row, 999 copies counted';
      }),
  },
  {
    numbers: [49],
    what: '100,000 events, 30 % dropped, 20 % duplicated, shuffled, with outages and resets (test/flow/outages.test.ts)',
    async produce() {
      const { passed, failed } = tested('test/flow/outages.test.ts', 'system', 'with replay alone', {
        FLOW_EVENTS: '100000',
      });
      return {
        seen: `${passed} passed: each handled once, strict and window lanes in order, gaps exact`,
        violations: failed > 0 || passed === 0 ? [`${failed} failed`] : [],
      };
    },
  },
  {
    numbers: [],
    what: 'I75: 3,000 slow connections: headers, bodies and readers by the thousand, beside 100 deliveries a second',
    produce: () =>
      stage({}, async (scene) => {
        const { kit } = scene;
        const memory = (): number => memoryOf(kit.pid('receive'));
        const before = memory();
        scene.load(100);
        await scene.acknowledge(50);
        const began = performance.now();
        let open = 0;
        let last = 0;
        const sockets: Socket[] = [];
        for (const words of Object.values(SLOW))
          for (let n = 0; n < 1_000; n++) {
            const socket = connect(kit.port, '127.0.0.1');
            open++;
            socket.on('error', () => {});
            socket.on('close', () => void (open--, (last = performance.now())));
            socket.write(words);
            if (!words.startsWith('GET')) socket.resume();
            sockets.push(socket);
            if (n % 50 === 0) await sleep(10);
          }
        const opened = performance.now();
        const most = memory();
        const readers = 1_000;
        const gone = await eventually(() => open <= readers, 25_000);
        scene.holds(gone, `${open - readers} are still open`);
        scene.holds(last - opened < 16_000, `the last was evicted after ${Math.round(last - opened)} ms`);
        const left = open;
        for (const socket of sockets) socket.destroy();
        await scene.acknowledge(50);
        return `opened within ${Math.round(opened - began)} ms, slow headers and bodies evicted ${Math.round(last - opened)} ms later, ${left} readers idle; memory ${before} to ${most} MB; ${scene.stood()}`;
      }),
  },
  {
    numbers: [],
    what: '500 events through a proxy that delays, drips, cuts or swallows requests and answers; each is retried until its 204',
    produce: (seed) =>
      stage({ allowed: [0, 400, 408] }, async (scene) => {
        const { kit } = scene;
        const random = createRandom(seed);
        const proxy = await startProxy(kit.port, () => random.next());
        const target = { port: proxy.port, timeoutMs: 1_500 };
        let tries = 0;
        let lost = 0;
        const sendOn = async (n: number): Promise<void> => {
          for (let attempt = 0; attempt < 20; attempt++) {
            tries++;
            const status = await deliver(target, makeEvent(n));
            if (status === 204) return void scene.acknowledged.add(`evt_${n}`);
            if (status !== 0) scene.statuses.set(status, (scene.statuses.get(status) ?? 0) + 1);
          }
          lost++;
        };
        await Promise.all(Array.from({ length: 500 }, (_, n) => sendOn(n)));
        proxy.close();
        scene.holds(lost === 0, `${lost} never got a 204`);
        const rows = kit.query<{ n: number }>('select count(*) as n from events')[0]?.n;
        scene.holds(rows === 500, `${rows} rows`);
        const copies = kit.query<{ n: number }>('select sum(copies) as n from events')[0]?.n;
        return `${tries} tries, ${[...proxy.tally].map(([name, n]) => `${n} ${name}`).join(', ')}; 500 rows, ${copies} copies`;
      }),
  },
];

/** A flood in proportion to the cores that others leave free: with less, its own queue would be all that is measured. */
function flood(count: number): number {
  const [load = 0] = loadavg();
  return Math.ceil(count * Math.min(1, availableParallelism() / load));
}

/**
 * Returns a function that tells by how much the machine has stretched the work of a process since: the time in which it
 * waited for a core, beside the time in which it had one.
 */
function stretchOf(pid: number | undefined): () => number {
  const look = (): number[] => readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ').map(Number);
  const [ran = 0, waited = 0] = look();
  return () => {
    const [now = 0, then = 0] = look();
    return 1 + (then - waited) / Math.max(1, now - ran);
  };
}

/** The resident memory of a process, MB. */
function memoryOf(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) >> 10;
}
