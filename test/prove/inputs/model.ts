// A model of identity: which arrivals are the same event. It is written from the identity table of the design alone,
// over plain lists. Comments in quotation marks are rows of that table. The store is compared with the model.

/** An event as one arrival shows it. Equal `data` strings stand for equal data of the event. */
export interface Arrival {
  id: string | null;
  cursor: string | null;
  data: string;
}

export interface Row {
  key: string;
  ids: Set<string>;
  cursors: Set<string>;
  data: string;
}

export interface Said {
  /** The new row. Null: the arrival is a duplicate. */
  row: Row | null;
  /** Whether a conflict must be recorded. Null: the identity table does not say. */
  conflict: boolean | null;
}

export function createIdentity() {
  const rows: Row[] = [];

  function add({ id, cursor, data }: Arrival, key: string): Row {
    const row = { key, data, ids: new Set(id === null ? [] : [id]), cursors: new Set(cursor === null ? [] : [cursor]) };
    rows.push(row);
    return row;
  }

  function accept(arrival: Arrival): Said {
    const { id, cursor, data } = arrival;
    const named = rows.find(({ ids }) => id !== null && ids.has(id));
    const there = rows.filter(({ cursors }) => cursor !== null && cursors.has(cursor));
    if (named) {
      // "known id, another cursor: both cursors name the event from now on"
      if (cursor !== null && there.length === 0) named.cursors.add(cursor);
      const twoEvents = there.length > 0 && !there.includes(named);
      // "known id, other data: a duplicate; conflict recorded"
      return { row: null, conflict: twoEvents ? null : named.data !== data };
    }
    const [first] = there;
    if (!first) return { row: add(arrival, cursor === null ? `i:${id}` : `c:${cursor}`), conflict: false };
    if (id === null) return { row: null, conflict: null };
    // "known cursor, and its row has no id yet: the id is added, nothing runs"
    if (first.ids.size === 0) {
      first.ids.add(id);
      return { row: null, conflict: null };
    }
    // "known cursor with another id and equal data: a duplicate"
    const equal = there.find((row) => row.data === data);
    if (equal) {
      equal.ids.add(id);
      return { row: null, conflict: false };
    }
    // "known cursor, another id and other data: another event, stored under `i:<id>`; conflict recorded"
    return { row: add(arrival, `i:${id}`), conflict: true };
  }

  return { accept, rows };
}
