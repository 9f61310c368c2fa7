// What the store knows about the cursors and ids of some arriving events, read with few statements.
import type { Incoming } from '../../../wire/event.ts';
import { nameOfCursor, nameOfId, type Known, type StoredIdentity } from '../../identity.ts';
import { EVENT_KEY, type Session } from '../session.ts';

export interface Stored extends StoredIdentity {
  key: string;
}

export type Look = Awaited<ReturnType<ReturnType<typeof createLookUp>>>;

/** `withId`: the numbers of the events that have one of these ids. */
export function createLookUp(session: Session, withId: (ids: string[]) => Promise<Map<string, number>>) {
  const { oneOf } = session.dialect;
  const known = session.statement<Stored>(`
    select seq, ${EVENT_KEY}, id, cast(cursor as text) as cursor, conflicting, type, origin, body, digest from events e
    where seq in (
      select seq from events where cursor ${oneOf('@cursors', 'bigint')} and cursor is not null and conflicting = 0
      union all select seq from events where cursor ${oneOf('@cursors', 'bigint')} and conflicting = 1
      union all select seq from events where seq ${oneOf('@seqs', 'bigint')})
    order by seq`);
  const aliasesOf = session.statement<{ name: string; seq: number }>(
    `select name, seq from aliases where name ${oneOf('?', 'text')}`,
  );

  return async (events: Incoming[]) => {
    const cursors = new Set(events.flatMap(({ cursor }) => cursor ?? []));
    const names = new Set(events.flatMap((event) => [nameOfCursor(event) ?? [], nameOfId(event) ?? []].flat()));
    const ids = await withId([...new Set(events.flatMap(({ id }) => id ?? []))]);
    const aliases = new Map((await aliasesOf.all([...names])).map(({ name, seq }) => [name, seq]));
    const bySeq = new Map<number, Stored>();
    const byCursor = new Map<string, Stored[]>();

    async function load(given: { cursors: string[]; seqs: number[] }): Promise<void> {
      for (const row of await known.all(given)) {
        if (bySeq.has(row.seq)) continue;
        bySeq.set(row.seq, row);
        if (row.cursor !== null) byCursor.set(row.cursor, [...(byCursor.get(row.cursor) ?? []), row]);
      }
    }
    await load({ cursors: [...cursors], seqs: [...ids.values(), ...aliases.values()] });

    return {
      of(event: Incoming): Known<Stored> {
        const at = byCursor.get(event.cursor ?? '') ?? [];
        const alias = aliases.get(nameOfCursor(event) ?? '');
        const atCursor = at.find(({ conflicting }) => !conflicting) ?? bySeq.get(alias ?? 0);
        const seq = ids.get(event.id ?? '') ?? aliases.get(nameOfId(event) ?? '') ?? 0;
        const same = atCursor && atCursor.id !== null && atCursor.id === event.id;
        const conflicting = at.filter((one) => one.conflicting);
        return { atCursor, withId: same ? atCursor : bySeq.get(seq), conflicting };
      },
      /** The event was stored under this number. */
      async stored({ id }: Incoming, seq: number): Promise<void> {
        if (id !== null) ids.set(id, seq);
        await load({ cursors: [], seqs: [seq] });
      },
      addId(of: Stored, id: string): void {
        of.id = id;
        ids.set(id, of.seq);
      },
      addAlias: (alias: string, { seq }: Stored): void => void aliases.set(alias, seq),
    };
  };
}
