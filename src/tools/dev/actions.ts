// What the view Send asks for: the types of src/events.ts, deliveries, switches, and tests that become files.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { systemClock as clock } from '../../base/clock.ts';
import type { EventType } from '../../base/define-event.ts';
import { describe } from '../../base/errors.ts';
import type { SimulatedService } from '../simulator/service.ts';

const ROOT = new URL('../../../', import.meta.url);
const EVENTS = new URL('src/events.ts', ROOT);
const SESSION = '00000000-0000-4000-8000-000000000001';
/** Events a minute; and of a hundred. */
const [TRAFFIC, CHAOS] = [60, 30];

/** `live`: the events are real, and those that are sent here have no cursor. */
export function createActions({ history, streams, webhook, rate, chaos }: SimulatedService, live: boolean) {
  let switches = { traffic: false, chaos: false };
  let types: Record<string, EventType<unknown>> = {};

  return {
    /** Reads src/events.ts. Resolves with its fault, for people; then the types stay as they were. */
    async load(): Promise<string | null> {
      try {
        ({ eventTypes: types } = (await import(`${EVENTS.href}?${clock.monotonic()}`)) as { eventTypes: typeof types });
        return null;
      } catch (error) {
        if (error instanceof Error) error.stack = error.stack?.replaceAll(/(?<=\.ts)\?[\d.]+/g, '') ?? '';
        const { name, message, at } = describe(error, fileURLToPath(EVENTS));
        return `${at}: ${name}: ${message}`;
      }
    },
    state() {
      const about = { n: clock.now(), session: SESSION, at: clock.now() };
      const examples = Object.entries(types).map(([type, { example }]) => ({ type, data: example?.(about) ?? {} }));
      return { switches: live ? null : switches, examples };
    },
    /** A new event; or with `again`, which has an id and a cursor, that one. */
    send({ type = '', data = {}, again }: { type?: string; data?: Record<string, unknown>; again?: object }) {
      const isNew = !again && !live;
      const event = isNew ? history.add(type, data, true) : { ...history.make(type, data), ...again };
      if (isNew) streams.publish(event);
      void webhook.deliver(event);
      return { key: event.cursor === null ? `i:${event.id}` : `c:${event.cursor}` };
    },
    switch(asked: Partial<typeof switches>) {
      switches = { ...switches, ...asked };
      rate(switches.traffic ? TRAFFIC : 0);
      chaos.share(switches.chaos ? CHAOS : 0);
      return switches;
    },
    /** Writes a test of the handler, under the first name that is free. */
    save({ handler = '', source = '' }: { handler?: string; source?: string }) {
      if (!/^\w[\w.-]{0,99}$/.test(handler)) throw new Error('this is no name of a handler');
      const fileOf = (n: number): string => `test/handlers/${handler}${n > 1 ? `-${n}` : ''}.test.ts`;
      let n = 1;
      while (existsSync(new URL(fileOf(n), ROOT))) n++;
      const file = fileOf(n);
      mkdirSync(new URL('test/handlers', ROOT), { recursive: true });
      writeFileSync(new URL(file, ROOT), source.replaceAll(fileURLToPath(ROOT), '../../'));
      // Found in the PATH of `npm run`. Without it the test is right as well.
      spawnSync('oxfmt', [file], { cwd: ROOT });
      return { file };
    },
  };
}
