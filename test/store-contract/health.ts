// Delivery health, which the main process keeps over restarts.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { event, T0, type Suite } from './harness.ts';

export function health(suite: Suite<Store>): void {
  const { another } = suite;
  let store: Store;
  beforeEach(() => void ({ store } = suite));

  describe('delivery health', () => {
    test('is empty at first', async () => {
      const none = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null };
      expect(await store.state.books()).toEqual({
        failureRun: 0,
        failures: { ...none, lastGoodAt: null, at: [] },
        signers: [],
      });
      expect(await store.read.status(T0)).toMatchObject({ failures: none, lastDeliveryAt: null, secrets: [] });
    });

    test('is written with the events of a batch; its secrets are shown in the order of the configuration', async () => {
      const at = new Date(T0).toISOString();
      const failures = {
        causes: { store: 2 },
        badSignatures: 1,
        badSince: at,
        lastBadAt: at,
        lastGoodAt: at,
        at: [T0],
      };
      const times = { firstAt: T0, lastAt: T0, aloneAt: null, goneAt: null };
      const signers = [
        { fingerprint: 'b', number: 2, hits: 9, mayGo: true, ...times },
        { fingerprint: 'c', number: null, hits: 7, mayGo: false, ...times, goneAt: T0 },
        { fingerprint: 'a', number: 1, hits: 1, mayGo: false, ...times },
      ];
      const state = { failure_run: 2, failures: JSON.stringify(failures), signers: JSON.stringify(signers) };
      await store.ingest.accept({ readings: [event('1')], now: T0, state });
      expect(await another().state.books()).toEqual({ failureRun: 2, failures, signers });
      const { lastGoodAt, at: _, ...shown } = failures;
      expect(await store.read.status(T0)).toMatchObject({ failureRun: 2, failures: shown, lastDeliveryAt: lastGoodAt });
      expect((await store.read.status(T0)).secrets).toEqual([
        { number: 1, hits: 1, lastAt: at, mayGo: false },
        { number: 2, hits: 9, lastAt: at, mayGo: true },
      ]);
    });
  });

  test('a process is listed until it is gone, and shown as down after a time without a sign of life', async () => {
    await store.processes.beat({ role: 'run', pid: 7, started: '99', boot: 1 }, T0);
    expect(await another().processes.list()).toEqual([{ role: 'run', pid: 7, started: '99', boot: 1 }]);
    expect((await store.read.status(T0)).processes).toEqual({ receive: 'down', run: 'up', keep: 'down' });
    expect((await store.read.status(T0 + 60_000)).processes.run).toBe('down');
    await store.processes.gone('run');
    expect(await store.processes.list()).toEqual([]);
  });
}
