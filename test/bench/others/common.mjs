// What the receivers in this folder share: they verify a delivery, and their handler counts what it has ended.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { appendFileSync, openSync, writeSync } from 'node:fs';

export const { DATABASE_URL, FOLDER, REDIS_PORT, SECRET } = process.env;
export const PORT = Number(process.env.PORT);
export const PLACES = 32;
export const RETRY_MS = 1_000;
const TOLERANCE_S = 300;

const failed = new Set();
const seen = new Int32Array(1);
const file = openSync(`${FOLDER}/seen`, 'w+');
setInterval(() => writeSync(file, seen, 0, seen.byteLength, 0), 10);

/** Undefined: it is not from the service, or old. */
export async function verified(req) {
  const parts = [];
  for await (const part of req) parts.push(part);
  const body = Buffer.concat(parts);
  const { 'x-svc-timestamp': timestamp, 'x-svc-signature': signature = '' } = req.headers;
  const expected = createHmac('sha256', SECRET).update(`${timestamp}.`).update(body).digest();
  const given = Buffer.from(signature.slice('v1='.length), 'hex');
  if (given.length !== expected.length || !timingSafeEqual(expected, given)) return undefined;
  if (Math.abs(Date.now() / 1_000 - Number(timestamp)) > TOLERANCE_S) return undefined;
  const event = JSON.parse(body.toString());
  return {
    id: event.id,
    cursor: event.cursor,
    lane: `${event.session_id}/${event.data[event.type].from}`,
    body,
    event,
  };
}

/** The handler. Events that say so fail once. */
export function handle(event) {
  const { fails } = event.data[event.type];
  if (fails && !failed.has(event.id)) {
    failed.add(event.id);
    throw new Error('once');
  }
  if (process.env.LINES) appendFileSync(`${FOLDER}/lines`, `${event.cursor}\n`);
  seen[0]++;
}
