// The actions of the view Send: read the types of src/events.ts, send events, turn switches, and write tests.
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
/** Events a minute while traffic is on, and how many of 100 of these events meet chaos. */
const [TRAFFIC, CHAOS] = [60, 30];

/** `live`: real events come from the service, so a new event that is sent here has no cursor. */
export function createActions({ history, streams, webhook, rate, chaos }: SimulatedService, live: boolean) {
  let switches = { traffic: false, chaos: false };
  let types: Record<string, EventType<unknown>> = {};

  return {
    /** Reads src/events.ts. Resolves with its fault in words, or with null. After a fault, the types stay as they were. */
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
    /** Sends a new event, or with `again` the event that has this id and cursor. */
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
    /** Writes a test of the handler, under the first free file name. */
    save({ handler = '', source = '' }: { handler?: string; source?: string }) {
      if (!/^\w[\w.-]{0,99}$/.test(handler)) throw new Error('this is not the name of a handler');
      const fileOf = (n: number): string => `test/handlers/${handler}${n > 1 ? `-${n}` : ''}.test.ts`;
      let n = 1;
      while (existsSync(new URL(fileOf(n), ROOT))) n++;
      const file = fileOf(n);
      mkdirSync(new URL('test/handlers', ROOT), { recursive: true });
      writeFileSync(new URL(file, ROOT), source.replaceAll(fileURLToPath(ROOT), '../../'));
      // `npm run` has oxfmt in its PATH. An unformatted test works too.
      spawnSync('oxfmt', [file], { cwd: ROOT });
      return { file };
    },
  };
}
