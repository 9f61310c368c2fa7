// What replay has proved, as far as lanes may go by it: who waits for it, who is released, how many still wait. In memory
// beside the lanes; the file holds the watermark, and how far each lane was released without proof.
import TinyQueue from 'tinyqueue';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Session } from '../session.ts';

/** Lanes that one turn looks at: few enough that a delivery never waits long for the store's lock. */
export const LOOKS = 1_000;
const LAST = 2n ** 63n - 1n;

/** Of a lane, what its proof needs. */
export interface Proving {
  id: number;
  /** Strict tasks at or below it may run, whether proved or not. */
  unproven: bigint;
  /** The cursor of its head, where that waits for the watermark. */
  proof: bigint | null;
}

export interface Proof<Lane> {
  watermark(): bigint;
  /** Until the watermark has passed the cursor. */
  await(lane: Lane, cursor: bigint): void;
  /** A new task that waits for proof is in the file. */
  add(lane: Lane, cursor: bigint, event: number): void;
  /** Releases what waits in the lane up to there. */
  waive(lane: Lane, cursor: bigint): void;
  /** Others have changed tasks: they are counted again. */
  doubt(): void;
  /** Names the lanes to look at; returns how many tasks wait for proof. */
  advance(wake: (lane: Lane) => void): number;
  /** More lanes are to be looked at than a turn may. */
  unfinished(): boolean;
  forget(): void;
}

export function createProof<Lane extends Proving>(
  session: Session,
  laneOf: (id: number) => Lane | undefined,
): Proof<Lane> {
  const { db } = session;
  const isStrict = `t.state = 'ready' and t.strict = 1 and t.alone = 0`;
  const newest = db.prepare<[], number | null>('select max(seq) from events').pluck();
  const count = db
    .prepare<unknown[], number>(`
    select count(*) from tasks t cross join lanes l on l.id = t.lane
    where ${isStrict} and t.cursor > +? and t.cursor <= +? and t.cursor > max(l.finished, l.unproven)`)
    .pluck();
  const countInLane = db
    .prepare<unknown[], number>(
      `select count(*) from tasks t where ${isStrict} and t.lane = +? and t.cursor > +? and t.cursor <= +?`,
    )
    .pluck();
  // By lane as well: several handlers have a task of the same cursor.
  const page = db.prepare<unknown[], { cursor: string; lane: number; event: number }>(`
    select cast(t.cursor as text) as cursor, t.lane, t.event from tasks t
    where ${isStrict} and (t.cursor, t.lane) > (+?, +?) order by t.cursor, t.lane limit ${LOOKS}`);
  const setUnproven = db.prepare('update lanes set unproven = max(unproven, ?) where id = ?');

  const queue = new TinyQueue<{ cursor: bigint; lane: Lane }>([], (a, b) =>
    a.cursor < b.cursor ? -1 : a.cursor > b.cursor ? 1 : 0,
  );
  let known: { watermark: Cursor | null; searched: number } = { watermark: null, searched: 0 };
  let watermark = -1n;
  /** What replay says now, and the last event that was stored when it did. */
  let told: (typeof known & { upTo: number }) | null = null;
  let waiting = 0;
  let doubtful = true;
  /** How far the tasks were looked through since `searched` moved; null: to their end. */
  let walked: { cursor: bigint; lane: number } | null = null;

  /** Events come with the watermark that passes them: they must be in their lanes before it counts. */
  function learn(): void {
    const says = { watermark: session.cursorState('watermark'), searched: Number(session.state('searched')) };
    if (!told && says.watermark === known.watermark && says.searched === known.searched) return;
    told ??= { ...says, upTo: newest.get() ?? 0 };
    if (Number(session.state('assigned')) < told.upTo) return;
    const before = watermark;
    watermark = BigInt(told.watermark ?? -1);
    // It was lowered: what it had passed waits again.
    if (watermark < before) doubtful = true;
    if (!doubtful) waiting -= count.get(before, watermark) ?? 0;
    if (told.searched > known.searched) walked = { cursor: watermark, lane: Number.MAX_SAFE_INTEGER };
    known = told;
    told = null;
    learn();
  }

  function waive(lane: Lane, cursor: bigint): void {
    const from = lane.unproven > watermark ? lane.unproven : watermark;
    waiting -= countInLane.get(lane.id, from, cursor) ?? 0;
    setUnproven.run(cursor, lane.id);
    lane.unproven = cursor;
  }

  function walkOn(from: { cursor: bigint; lane: number }, wake: (lane: Lane) => void): void {
    const rows = page.all(from.cursor, from.lane);
    for (const { cursor, lane: id, event } of rows) {
      const lane = laneOf(id);
      if (!lane || event > known.searched || BigInt(cursor) <= lane.unproven) continue;
      waive(lane, BigInt(cursor));
      wake(lane);
    }
    const last = rows.at(-1);
    walked = last && rows.length === LOOKS ? { cursor: BigInt(last.cursor), lane: last.lane } : null;
  }

  return {
    watermark: () => watermark,
    await(lane, cursor) {
      if (lane.proof === cursor) return;
      lane.proof = cursor;
      queue.push({ cursor, lane });
    },
    add(lane, cursor, event) {
      waiting++;
      if (event <= known.searched) waive(lane, cursor);
    },
    waive,
    doubt() {
      doubtful = true;
    },
    advance(wake) {
      learn();
      if (doubtful && !told) {
        waiting = count.get(watermark, LAST) ?? 0;
        doubtful = false;
      }
      for (let looks = 0; looks < LOOKS; looks++) {
        const entry = queue.peek();
        if (!entry || entry.cursor > watermark) break;
        queue.pop();
        if (entry.lane.proof !== entry.cursor) continue;
        entry.lane.proof = null;
        wake(entry.lane);
      }
      if (walked) walkOn(walked, wake);
      return waiting;
    },
    unfinished() {
      const entry = queue.peek();
      return walked !== null || (entry !== undefined && entry.cursor <= watermark);
    },
    forget() {
      queue.data = [];
      queue.length = 0;
      known = { watermark: null, searched: 0 };
      watermark = -1n;
      told = null;
      doubtful = true;
      walked = null;
    },
  };
}
