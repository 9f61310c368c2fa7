// A receiver without HTTP: it accepts deliveries into a PostgreSQL store, always equally many in flight. It prints a line
// when it is ready, and ends when all are accepted.
import { once } from 'node:events';
import { systemClock } from '../../src/base/clock.ts';
import { createGroupCommit } from '../../src/receive/group-commit.ts';
import { openPostgres } from '../../src/store/postgres/open.ts';
import { readDelivery } from '../../src/wire/event.ts';

export interface Accepting {
  url: string;
  count: number;
  inFlight: number;
  /** The number of the first event. */
  first: number;
}

const WARM = 2_000;
const { url, count, inFlight, first } = JSON.parse(process.argv[2] ?? '') as Accepting;
const store = openPostgres(url, { owner: true });
const commits = createGroupCommit({
  store: { ...store.ingest, note: (...given) => store.state.note(...given) },
  clock: systemClock,
});
const readings = Array.from({ length: WARM + count }, (_, n) => readingOf(first + n));
let next = 0;
await accept(WARM);
console.log('ready');
await once(process.stdin, 'data');
await accept(WARM + count);
process.exit(0);

async function accept(upTo: number): Promise<void> {
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      for (let at = next++; at < upTo; at = next++) await commits.accept(readings[at] as (typeof readings)[number]);
    }),
  );
  next = upTo;
}

function readingOf(n: number): ReturnType<typeof readDelivery> {
  const message = { body: 'x'.repeat(560), from: `person-${n % 10_000}` };
  const type = 'MessageReceived';
  const [id, session_id] = [`id-${n}-${Math.random()}`, '00000000-0000-4000-8000-000000000000'];
  const created_at = new Date().toISOString();
  return readDelivery(
    Buffer.from(JSON.stringify({ id, type, created_at, cursor: String(n + 1), session_id, data: { [type]: message } })),
  );
}
