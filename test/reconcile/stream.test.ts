// The stream: what it stores, where it goes on, and what it does when it is refused.
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../src/base/log.ts';
import { startStream } from '../../src/reconcile/stream.ts';
import { createExchange } from '../../src/service/exchange.ts';
import { until } from '../harness.ts';
import { serve } from '../serve.ts';
import { createWorld } from '../store/fixture.ts';
import { refuses, stored, type Lie } from './service.ts';

const domain = (cursor: number): string => `id: ${cursor}\nevent: domain\ndata: {"A":{"session_id":"ä"}}\n\n`;
const PING = 'event: ping\ndata: {}\n\n';
const END = 'event: end\ndata: {}\n\n';

test('what fails is tried again; what comes is stored, and after an end it goes on from there', async () => {
  const world = createWorld();
  const inPieces: Lie = (response) => {
    for (const byte of Buffer.from(domain(1) + PING + END)) response.write(Buffer.of(byte));
  };
  const answers: Lie[] = [refuses(503, 'UNAVAILABLE'), inPieces, (response) => response.write(domain(2))];
  const asked: unknown[] = [];
  const { url } = await serve((request, response) => {
    asked.push([request.url, request.headers['last-event-id']]);
    answers.shift()?.(response);
  });
  const exchange = createExchange({ baseUrl: `${url}v1`, apiKey: 'svc_live_a' });
  const stream = startStream(world.store.ingest, createLog('test', 'silent'), exchange);
  onTestFinished(() => stream.stop());
  await until('the second event', () => stored(world).length === 2);
  expect(stored(world)).toEqual([1, 2]);
  expect(asked).toEqual([
    ['/v1/events', undefined],
    ['/v1/events', undefined],
    ['/v1/events', '1'],
  ]);
});
