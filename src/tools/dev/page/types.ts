// The event types of src/events.ts, as they are on disk now: the file may change while `npm run dev` runs.
import { pathToFileURL } from 'node:url';
import type { EventType } from '../../../base/define-event.ts';
import { nearestType } from '../../../run/did-you-mean.ts';
import type { JsonObject } from '../../../wire/json.ts';
import { kitEvents } from '../../../wire/kit-events.ts';

type Types = Record<string, EventType<unknown>>;

/** A field that does not fit, and what is wrong with it. An empty field is the whole of the data. */
export interface FieldError {
  field: string;
  message: string;
}

export type EventTypes = ReturnType<typeof createEventTypes>;

export function createEventTypes(file: string, yours: Types) {
  const { 'webhook.ping': ping } = kitEvents;
  let types: Types = { ...yours, 'webhook.ping': ping };
  let version = 0;

  return {
    /** Reads the file again. If it is broken, the types stay as they are: the kit names the fault. */
    async reload(): Promise<void> {
      try {
        const module = (await import(`${pathToFileURL(file).href}?version=${++version}`)) as { eventTypes: Types };
        types = { ...module.eventTypes, 'webhook.ping': ping };
      } catch {
        // Reported by the kit.
      }
    },
    /** An example of each type, for the form. */
    examples(session: string, at: number): { type: string; data: object }[] {
      return Object.entries(types).map(([type, { example }]) => ({
        type,
        data: (example?.({ n: at, session, at }) as object | undefined) ?? {},
      }));
    },
    check(type: string, data: unknown): FieldError[] {
      if (type === '') return [{ field: '', message: 'name a type' }];
      if (typeof data !== 'object' || data === null || Array.isArray(data))
        return [{ field: '', message: 'must be a JSON object' }];
      const schema = types[type]?.data;
      const { shape = {} } = (schema ?? {}) as { shape?: object };
      const misspelt = Object.keys(data).flatMap((field) => {
        const near = Object.hasOwn(shape, field) ? undefined : nearestType(field, Object.keys(shape));
        return near ? [{ field, message: `did you mean ${near}? If not, name it in src/events.ts` }] : [];
      });
      const issues = schema?.safeParse(data).error?.issues ?? [];
      return [...misspelt, ...issues.map(({ path, message }) => ({ field: path.join('.'), message }))];
    },
    /** The sender within the session, if the type names one. */
    conversation(type: string, data: JsonObject): string {
      try {
        const found = types[type]?.conversation?.(data);
        return typeof found === 'string' ? found : '';
      } catch {
        return '';
      }
    },
  };
}
