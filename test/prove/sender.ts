// Deliveries of a campaign: at a rate, tried again until they are accepted, as the service would.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { deliver } from '../harness.ts';

export interface Sent {
  id: string;
  cursor: string;
  lane: string;
  /** When its delivery began, Unix milliseconds. */
  at: number;
}

export interface Message {
  body?: string;
  lane?: string;
}

/** The most deliveries at once. */
const MOST = 200;
const SESSION = '00000000-0000-4000-8000-000000000001';

export function createSender(url: () => string, lanes = 50) {
  let n = 1_000;
  const ended = new AbortController();
  const running = new Set<Promise<Sent>>();
  const acknowledged: Sent[] = [];
  const statuses = new Map<number, number>();

  async function send({ body = 'hello', lane = `1555${n % lanes}` }: Message = {}): Promise<Sent> {
    const cursor = String(++n);
    const sent = { id: randomUUID(), cursor, lane, at: Date.now() };
    const fields = { session_id: SESSION, from: lane, message_id: `m-${cursor}`, body, timestamp_unix_ms: sent.at };
    const created_at = new Date(sent.at).toISOString();
    const event = { id: sent.id, cursor, session_id: SESSION, created_at, data: fields };
    for (let tries = 0; tries < 400; tries++) {
      const status = await deliver(url(), event).catch(() => 0);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 204) {
        acknowledged.push(sent);
        return sent;
      }
      await sleep(Math.min(1_000, 50 * (tries + 1)));
    }
    throw new Error(`event ${cursor} was never accepted`);
  }

  return {
    acknowledged,
    statuses,
    send,
    /** Sends so many a second, until `stop` is called. */
    async run(perSecond: number, make: () => Message = () => ({})): Promise<void> {
      const began = performance.now();
      for (let sent = 0; !ended.signal.aborted; sent++) {
        while (running.size >= MOST) await Promise.race(running);
        const one = send(make());
        running.add(one);
        void one.finally(() => running.delete(one));
        const waitMs = began + ((sent + 1) * 1_000) / perSecond - performance.now();
        if (waitMs > 0) await sleep(waitMs);
      }
    },
    /** Resolves when every delivery that has begun was accepted. */
    async stop(): Promise<void> {
      ended.abort();
      await Promise.all(running);
    },
  };
}
