// The template `auto-reply` against the simulator over HTTP. Worst case: a send is carried out, but answered with 504.
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { deliver, fixture, recorder, type Recorder } from '#kit/testing';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';
import autoReply from '../../../templates/auto-reply.ts';

beforeEach(() => void vi.stubEnv('PAID_OPERATIONS', 'allow'));
afterEach(() => void vi.unstubAllEnvs());

test.each([
  ['done, and answered with 504', { fault: '504' }],
  ['done, and then a crash', { crashAfter: 1 }],
  ['done, and answered with 504, and then a crash', { fault: '504', crashAfter: 1 }],
  ['done without a fault', {}],
] as const)(
  'a paid send that is %s is sent once',
  async (_, { fault, crashAfter }: { fault?: '504'; crashAfter?: number }) => {
    const simulator = createSimulatedService({ seed: 1 });
    onTestFinished(() => simulator.close());
    const scopes = ['product:inbox', 'messages:send', 'events:read'];
    const { secret } = simulator.keys.create({ name: 'auto-reply', scopes, validDays: 30 });
    const base = await simulator.listen();
    const [{ sessionId, data } = { sessionId: null, data: {} as Record<string, unknown> }] = simulator.happen();
    let sends = 0;
    const service: Recorder = {
      ...recorder(),
      async fetch(url, init) {
        const { pathname } = new URL(url);
        if (pathname.endsWith('/messages/send') && ++sends === 1 && fault) simulator.chaos.next(fault);
        const headers = { 'content-type': 'application/json', authorization: `Bearer ${secret}` };
        return fetch(base + pathname.replace('/v1', ''), { ...init, headers });
      },
    };
    const event = fixture('MessageReceived', { sessionId, data: { from: String(data['from']) } });
    const options = crashAfter === undefined ? { service } : { service, crashAfter };
    expect((await deliver(autoReply, event, options)).tasks).toMatchObject([{ state: 'done' }]);
    expect(simulator.history.all().filter(({ type }) => type === 'MessageSent')).toHaveLength(1);
    expect(sends).toBe(1);
  },
);
