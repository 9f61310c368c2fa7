// What the parts of the page of `npm run dev` share.
import type { Found } from '../../../admin/timeline.ts';
import type { Store } from '../../../store/store.ts';
import type { Endpoint } from '../deliver.ts';
import type { Source } from '../source.ts';
import type { EventLog } from './record.ts';
import type { EventTypes } from './types.ts';

/** The session of examples. */
export const SESSION = '00000000-0000-4000-8000-000000000001';

export interface Shown {
  /** `up`, `starting` or `down`. */
  kit: string;
  handlers: string[];
  /** Why handler files could not be loaded; a line each. */
  faults: string[];
  /** The last words of the source, for example that the stream is lost. */
  notice: string;
}

export interface DevContext {
  source: Source;
  endpoint: Endpoint;
  opsUrl: string;
  handlersDir: string;
  /** Undefined: the kit has not created it yet. */
  store: () => Store | undefined;
  shown: Shown;
  types: EventTypes;
  record: EventLog;
  /** Empties the store and starts the kit again. */
  clear: () => Promise<void>;
  changed: () => void;
}

export type Asked = Record<string, unknown>;
/** Throws if the event is not in the store. */
export type Find = (key: unknown) => Promise<Found & { store: Store }>;
