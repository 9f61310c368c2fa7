// Ingest, the one door: a batch is written in one piece, or reading by reading if it fails.
import type { Reading } from '../../../wire/event.ts';
import type { Accepted, Batch, IngestStore } from '../../ingest.ts';
import type { StateStore, Counts, StateKey } from '../../state.ts';
import { createArriving, type Seen } from './arriving.ts';
import { faultOf } from '../fault.ts';
import { createGaps } from './gaps.ts';
import { createIds } from './ids.ts';
import { createPoison, type Failing } from './poison.ts';
import type { Session, Sync } from '../session.ts';
import { createWatermark } from './watermark.ts';

export function createIngestStore(
  session: Session,
  {
    idsInSegment,
    failing = new Set(),
    onDropped = () => {},
  }: { idsInSegment?: number | undefined; failing?: Failing; onDropped?: Dropped } = {},
): Sync<Omit<IngestStore, 'sync'> & Pick<StateStore, 'note'>> & { accept: Accept; readmit: Accept } {
  const poison = createPoison(session, failing);
  const watermark = createWatermark(session);
  const raiseGap = createGaps(session);
  const ids = createIds(session, idsInSegment);
  const arrive = createArriving(session, ids);

  function accept(batch: Batch): Accepted[] {
    try {
      ids.fold(batch.now);
    } catch (error) {
      if (faultOf(error, session.path)) throw error;
      onDropped('the order of ids', error);
    }
    const group = groupOf(batch);
    try {
      const accepted = group.together();
      if (accepted.length > 0) failing.clear();
      return accepted;
    } catch (error) {
      if (faultOf(error, session.path)) throw error;
    }
    try {
      return group.apart();
    } catch (error) {
      throw poison.unwritable(error);
    }
  }

  /** Accepts quarantined readings again. If one fails again, nothing is written. */
  function readmit(batch: Batch): Accepted[] {
    let accepted: Accepted[] = [];
    const failure = poison.failureOf(() => {
      accepted = groupOf(batch).together();
    });
    return failure === undefined ? accepted : batch.readings.map(() => ({ verdict: 'quarantined' }));
  }

  /** Two ways to write a batch: in one piece, or reading by reading. */
  function groupOf(batch: Batch) {
    const seen: Seen = { newIds: new Map(), refreshed: false };

    function together(): Accepted[] {
      const accepted = session.write(() => {
        const raised = batch.gap ? raiseGap(batch.gap, batch.now) : [];
        const results = ingest([...batch.readings, ...raised]);
        placePage();
        session.count(batch.counts ?? {});
        writeState(batch.state);
        return results.slice(0, batch.readings.length);
      });
      ids.learn(seen.newIds);
      return accepted;
    }

    function apart(): Accepted[] {
      seen.newIds = new Map();
      const accepted = session.write(() => {
        // The ids of other connections are read once, before this transaction adds its own.
        ids.refresh();
        seen.refreshed = true;
        const results = poison.apart(batch.readings, isPage(batch), { take: alone, keep });
        if (batch.gap) ingest(raiseGap(batch.gap, batch.now));
        placePage();
        writeApart(batch.counts, batch.state);
        return results;
      });
      ids.learn(seen.newIds);
      return accepted;
    }

    /** Ingests one reading. If it fails, its ids are forgotten. */
    function alone(reading: Reading): Accepted {
      const before = seen.newIds;
      seen.newIds = new Map(before);
      try {
        return ingest([reading])[0] ?? { verdict: 'unkept' };
      } catch (error) {
        seen.newIds = before;
        throw error;
      }
    }

    function keep(reading: Reading, reason: string): Accepted {
      if ('unreadable' in reading) return alone(reading);
      const { origin, cursor, body } = reading.event;
      return alone({ unreadable: { origin, cursor, body, reason } });
    }

    function placePage(): void {
      if (batch.from) session.setState('proved_from', BigInt(batch.from));
      watermark.raise(batch);
    }

    const ingest = (readings: Reading[]): Accepted[] => arrive(readings, batch, seen);

    return { together, apart };
  }

  function writeState(state: Batch['state']): void {
    for (const [name, value] of Object.entries(state ?? {})) session.setState(name as StateKey, value);
  }

  /** Writes each counter and each state separately. If one of them cannot be written, it is dropped. */
  function writeApart(counts: Counts = {}, state: Batch['state'] = {}): void {
    const drop = (name: string, work: () => void): void => {
      const failure = poison.failureOf(work);
      if (failure !== undefined) onDropped(name, failure);
    };
    for (const [name, value] of Object.entries(counts)) drop(name, () => session.count({ [name]: value }));
    for (const [name, value] of Object.entries(state)) drop(name, () => writeState({ [name]: value }));
  }

  return {
    accept,
    readmit,
    note(counts, state) {
      try {
        session.write(() => {
          session.count(counts);
          writeState(state);
        });
      } catch (error) {
        if (faultOf(error, session.path)) throw error;
        session.write(() => writeApart(counts, state));
      }
    },
  };
}

type Accept = (batch: Batch) => Accepted[];

export type Dropped = (what: string, error: unknown) => void;

/** Whether every reading must be kept: items of a page do not arrive again once the watermark has passed them. */
function isPage({ readings, watermark, from, gap }: Batch): boolean {
  const origins = readings.map((one) => ('event' in one ? one.event : one.unreadable).origin);
  return (watermark ?? from ?? gap) !== undefined || origins.some((origin) => origin !== 'webhook');
}
