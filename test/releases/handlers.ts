// The handlers of the story that each release tells (story.ts). While STORY is set, they fail, skip and give up as the
// body of an event says. A later kit serves the store with the same handlers, all of which then succeed.

const COMMON = `import { appendFileSync } from 'node:fs';
import { Dead, Skip } from '#kit';
const telling = process.env.STORY !== undefined;
const words = (event) => String(event.data.body ?? '');
const ran = (handler, event, ctx) =>
  appendFileSync(process.env.RAN, JSON.stringify({ handler, key: event.key, notes: ctx.notes }) + '\\n');
`;

const MESSAGE = 'MessageReceived';

/** A step runs on SQLite and on PostgreSQL. */
export const STEPS = [
  'create table ledger (key text primary key, words text not null)',
  'alter table ledger add column runs bigint not null default 1',
];

/** What each handler has in its file. `on`: the types of its events; `*`: every type of the service. */
const HANDLERS: Record<string, { on: string; fields?: string; body: string }> = {
  every: { on: '*', fields: `lane: 'none', order: 'arrival', history: true`, body: '' },
  ledger: {
    on: MESSAGE,
    fields: `setup: ${JSON.stringify(STEPS)}`,
    body: `await ctx.note('begun', { words: words(event) });
    await ctx.complete((tx) => tx.run(
      'insert into ledger (key, words) values (?, ?) on conflict (key) do update set runs = ledger.runs + 1',
      event.key, words(event),
    ));`,
  },
  strict: { on: MESSAGE, fields: `order: 'strict'`, body: '' },
  aside: {
    on: MESSAGE,
    fields: 'laneHoldMs: 1, retry: { firstMs: 3600000, maxMs: 3600000 }',
    body: `if (telling && words(event) === 'step aside') throw new Error('not yet');`,
  },
  blocked: {
    on: MESSAGE,
    fields: 'laneHoldMs: 86400000, retry: { firstMs: 3600000, maxMs: 3600000 }',
    body: `if (telling && words(event) === 'block') throw new Error('not now');`,
  },
  picky: {
    on: 'MessageStatusUpdated',
    body: `if (telling && event.data.status === 'failed') throw new Dead('a status that nobody knows');
    if (telling && event.data.status === 'read') throw new Skip('nothing to do');`,
  },
  paused: { on: MESSAGE, body: '' },
  gaps: { on: 'kit.gap', body: '' },
  late: { on: 'MessageSent', body: '' },
};

/** The sources of the handlers' files, by name. */
export const sources = Object.fromEntries(
  Object.entries(HANDLERS).map(([name, { on, fields = '', body }]) => [
    name,
    `${COMMON}export default {
  on: '${on}',
  ${fields === '' ? '' : `${fields},`}
  async handle(event, ctx) {
    ran('${name}', event, ctx);
    ${body}
  },
};
`,
  ]),
);

/** The handlers that get an event of this type. */
export function wanting(type: string): string[] {
  const all = Object.entries(HANDLERS);
  return all.flatMap(([name, { on }]) => (on === type || (on === '*' && !type.startsWith('kit.')) ? [name] : []));
}
