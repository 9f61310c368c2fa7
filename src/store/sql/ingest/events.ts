// Ingest, the one door: a batch is written in one piece, or reading by reading if it fails.
import type { Reading } from '../../../wire/event.ts';
import type { Accepted, Batch } from '../../ingest.ts';
import type { Counts, StateKey } from '../../state.ts';
import { createArriving, type EventTable } from './arriving.ts';
import { createGaps } from './gaps.ts';
import { createPoison, type Failing } from './poison.ts';
import type { Lock, Session } from '../session.ts';
import { createWatermark } from './watermark.ts';

export interface IngestOptions {
  events: EventTable;
  failing?: Failing | undefined;
  onDropped?: Dropped | undefined;
}

export function createIngest(session: Session, { events, failing = new Set(), onDropped = () => {} }: IngestOptions) {
  const poison = createPoison(session, failing);
  const watermark = createWatermark(session);
  const raiseGap = createGaps(session);
  const arrive = createArriving(session, events);

  async function accept(batch: Batch): Promise<Accepted[]> {
    try {
      const accepted = await together(batch);
      if (accepted.length > 0) failing.clear();
      return accepted;
    } catch (error) {
      if (session.faultOf(error)) throw error;
    }
    try {
      return await apart(batch);
    } catch (error) {
      throw poison.unwritable(error);
    }
  }

  /** Accepts quarantined readings again. If one fails again, nothing is written. */
  async function readmit(batch: Batch): Promise<Accepted[]> {
    let accepted: Accepted[] = [];
    const failure = await poison.failureOf(async () => {
      accepted = await together(batch);
    });
    return failure === undefined ? accepted : batch.readings.map(() => ({ verdict: 'quarantined' }));
  }

  function together(batch: Batch): Promise<Accepted[]> {
    return commit(batch, false, async () => {
      const raised = batch.gap ? await raiseGap(batch.gap, batch.now) : [];
      const results = await arrive([...batch.readings, ...raised], batch);
      await placePage(batch);
      await session.count(batch.counts ?? {});
      await writeState(batch.state);
      return results.slice(0, batch.readings.length);
    });
  }

  function apart(batch: Batch): Promise<Accepted[]> {
    const take = async (reading: Reading): Promise<Accepted> =>
      (await arrive([reading], batch))[0] ?? { verdict: 'unkept' };
    const keep = (reading: Reading, reason: string): Promise<Accepted> => take(asideOf(reading, reason));
    return commit(batch, true, async () => {
      const results = await poison.apart(batch.readings, isPage(batch), { take, keep });
      if (batch.gap) await arrive(await raiseGap(batch.gap, batch.now), batch);
      await placePage(batch);
      await writeApart(batch.counts, batch.state);
      return results;
    });
  }

  async function commit(batch: Batch, isApart: boolean, work: () => Promise<Accepted[]>): Promise<Accepted[]> {
    const write = (): Promise<Accepted[]> => {
      events.begin?.(isApart);
      return work();
    };
    // Only the instance that leads reads history.
    const locks: Lock[] = isPage(batch) ? ['door', 'lead'] : ['door'];
    const accepted = await session.write(write, ...locks);
    events.committed?.();
    return accepted;
  }

  async function placePage(batch: Batch): Promise<void> {
    if (batch.from) await session.setState('proved_from', BigInt(batch.from));
    await watermark.raise(batch);
  }

  async function writeState(state: Batch['state']): Promise<void> {
    for (const [name, value] of Object.entries(state ?? {})) await session.setState(name as StateKey, value);
  }

  /** Writes each counter and each state separately. If one of them cannot be written, it is dropped. */
  async function writeApart(counts: Counts = {}, state: Batch['state'] = {}): Promise<void> {
    async function drop(name: string, work: () => Promise<void>): Promise<void> {
      const failure = await poison.failureOf(work);
      if (failure !== undefined) onDropped(name, failure);
    }
    for (const [name, value] of Object.entries(counts)) await drop(name, () => session.count({ [name]: value }));
    for (const [name, value] of Object.entries(state)) await drop(name, () => writeState({ [name]: value }));
  }

  return {
    accept,
    readmit,
    note: async (counts: Counts, state?: Batch['state']): Promise<void> => {
      try {
        await session.write(async () => {
          await session.count(counts);
          await writeState(state);
        });
      } catch (error) {
        if (session.faultOf(error)) throw error;
        await session.write(() => writeApart(counts, state));
      }
    },
  };
}

export type Dropped = (what: string, error: unknown) => void;

function asideOf(reading: Reading, reason: string): Reading {
  if ('unreadable' in reading) return reading;
  const { origin, cursor, body } = reading.event;
  return { unreadable: { origin, cursor, body, reason } };
}

/** Whether every reading must be kept: items of a page do not arrive again once the watermark has passed them. */
export function isPage({ readings, watermark, from, gap }: Batch): boolean {
  const origins = readings.map((one) => ('event' in one ? one.event : one.unreadable).origin);
  return (watermark ?? from ?? gap) !== undefined || origins.some((origin) => origin !== 'webhook');
}
