// What people see of a store: its lists, page by page, and its events one by one.
import type { Store } from '../../src/store/store.ts';

const PAGE = 100;
/** Each costs several queries. */
const ONE_BY_ONE = 300;
/** Numbers of rows, which the kinds need not share. */
const NUMBERS = new Set(['id', 'seq', 'task', 'next', 'group']);

export async function readAll({ read }: Store, now: number): Promise<string[]> {
  const events = await pagesOf(async (before) => {
    const { events: page, next } = await read.events({ limit: PAGE, before }, now);
    return { page, next };
  });
  const tasks = await pagesOf(async (before) => {
    const { tasks: page, next } = await read.tasks({ limit: PAGE, before }, now);
    return { page, next };
  });
  const ones: unknown[] = [];
  for (const { key } of events.slice(0, ONE_BY_ONE))
    ones.push({
      of: key,
      ...(await read.event(key, now)),
      contradictions: (await read.contradictions(key)).map(({ at, body }) => [at, body.length]),
    });
  const lists = [
    // The pattern follows from the error, in which PostgreSQL replaces a NUL.
    (await read.groups({ limit: PAGE })).groups.map((group) => ({ ...group, pattern: null })),
    await read.quarantine(1_000),
    await read.gaps(),
    await read.arrivals(),
    await read.handlers(now),
    await read.waitingLanes(PAGE),
  ];
  return [...events, ...tasks, ...ones, ...lists.flat()].map(shown);
}

async function pagesOf<Row>(read: (before: number) => Promise<{ page: Row[]; next: number | null }>): Promise<Row[]> {
  const rows: Row[] = [];
  for (let before: number | null = Infinity; before !== null;) {
    const { page, next } = await read(before);
    rows.push(...page);
    before = next;
  }
  return rows;
}

function shown(one: unknown): string {
  const text = JSON.stringify(one, (name, value: unknown) =>
    NUMBERS.has(name) && typeof value === 'number' ? undefined : value,
  );
  // PostgreSQL's texts hold no NUL, see rows.ts.
  return `read ${text.replaceAll(String.raw`\u0000`, '\uFFFD')}`;
}
