// What any store promises. Each method is one transaction; all are awaited. Cursors are compared as integers.
// Receiving needs EventStore, `run` TaskStore, `keep` KeepStore, people WatchStore and MendStore, the main process OwnerStore.
import type { EventStore } from './events-store.ts';
import type { KeepStore } from './keep-store.ts';
import type { EraseStore, MendStore } from './mend-store.ts';
import type { OwnerStore } from './owner-store.ts';
import type { TaskStore } from './tasks-store.ts';
import type { SampleStore, WatchStore } from './watch-store.ts';

/** busy: locked elsewhere, try again. unwritable: try again, on a new connection. The rest need a person. */
export class StoreError extends Error {
  readonly code: 'busy' | 'unwritable' | 'replaced' | 'missing' | 'newer' | 'owned';
  constructor(code: StoreError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}

export interface Store
  extends EventStore, TaskStore, KeepStore, WatchStore, SampleStore, MendStore, EraseStore, OwnerStore {
  close(): void;
}
