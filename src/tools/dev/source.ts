// Where the events of `npm run dev` come from: a simulated account (simulated.ts), or yours (live.ts).
import type { JsonObject } from '../../wire/json.ts';
import type { Endpoint } from './deliver.ts';

/** An event, and the body of its delivery. */
export interface Made {
  key: string;
  id: string;
  body: string;
}

export interface Source {
  /** Variables that connect the kit to this source. */
  env: Record<string, string>;
  /** Begins to deliver events. Deliveries may pause while `up` returns false. */
  start(to: Endpoint & { up: () => boolean }): Promise<void>;
  /** A new event with these data. It is not delivered yet. */
  next(type: string, data: JsonObject): Made;
  /** Undefined: nobody can switch them, because the events are real. */
  switches?: { traffic: boolean; chaos: boolean };
  /** Fetches what happened in the last minutes. Resolves to what it did, in words. */
  recent?(): Promise<string>;
}
