// What is learned of the events that came: names of fields, shares and kinds, never a value, and no key that may name
// a person.
import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { createFields, KEY, type Field } from '../../src/admin/fields.ts';
import { textOf } from '../../src/admin/type-text.ts';
import { learnTypes, NEWEST, type LearnedType } from '../../src/admin/types.ts';
import { define, integer, orElse, type EventType } from '../../src/base/define-event.ts';
import { eventTypes } from '../../src/wire/event-map.ts';
import { readDelivery, SENT_BY_KIT } from '../../src/wire/event.ts';
import { onPostgres } from '../stores.ts';
import { createRecords, deliver, SESSION, type Records } from './harness.ts';

let records: Records;
beforeEach(() => {
  records = createRecords();
});
afterEach(() => records.remove());

let cursor = 0;

async function came(type: string, ...all: object[]): Promise<void> {
  await deliver(records, ...all.map((data) => ({ type, data, cursor: String(++cursor) })));
}

function learned(type?: string): Promise<LearnedType[]> {
  return Array.fromAsync(learnTypes(records.store, records.clock.time, type));
}

async function learnedOf(type: string): Promise<LearnedType> {
  const [found] = await learned(type);
  if (!found) throw new Error(`nothing was learned of ${type}`);
  return found;
}

/** Each field as a line: its path, how often it came, and its kinds. */
function linesOf({ fields }: Field, above = ''): string[] {
  return [...fields].flatMap(([name, field]) => [
    `${above}${name} ${field.times} ${[...field.kinds].map(([kind, times]) => `${kind}=${times}`).join()}`,
    ...linesOf(field, `${above}${name}.`),
  ]);
}

function fieldAt({ root }: LearnedType, ...path: string[]): Field | undefined {
  return path.reduce<Field | undefined>((field, name) => field?.fields.get(name), root);
}

/** Learns from these data as if they were all events of a type. */
function learnedFrom(...all: unknown[]): Field {
  const fields = createFields(undefined);
  for (const data of all) fields.learn(data);
  fields.tidy();
  return fields.root;
}

/** An object with this many names, each of letters only. */
function words(many: number, from = 0, value: unknown = 1): object {
  const word = (n: number): string => `w${String(n).replaceAll(/\d/g, (digit) => 'abcdefghij'[Number(digit)] ?? '')}`;
  return Object.fromEntries(Array.from({ length: many }, (_, n) => [word(from + n), value]));
}

function defineFor(name: string, type: EventType<unknown>): void {
  onTestFinished(() => void Reflect.deleteProperty(eventTypes, name));
  Object.assign(eventTypes, { [name]: type });
}

test('the fields of a type are counted, with the kinds of their values', async () => {
  await came('Reaction', {
    emoji: 'x',
    at: 5,
    far: '9007199254740993',
    who: SESSION,
    on: null,
    media: { bytes: '12' },
  });
  await came('Reaction', { emoji: '', at: 5.5, when: '2026-01-02T03:04:05Z', on: true, media: { tags: ['a', 1] } });
  const { root, ...rest } = await learnedOf('Reaction');
  expect(rest).toEqual({ type: 'Reaction', events: 2, defined: false });
  expect(linesOf(root)).toEqual([
    'emoji 2 string=2',
    'at 2 number=1,integer=1',
    'when 1 time=1',
    'on 2 boolean=1,null=1',
    'media 2 object=2',
    'media.tags 1 list=1',
    'media.tags.[] 2 string=1,integer=1',
    'media.bytes 1 digits=1',
    'far 1 long digits=1',
    'who 1 UUID=1',
  ]);
});

test('each type that came is learned, and each that src/events.ts defines', async () => {
  await came('Reaction', { emoji: 'x' });
  const types = (await learned()).map(({ type, events, defined }) => ({ type, events, defined }));
  expect(types).toEqual([
    { type: 'MessageReceived', events: 0, defined: true },
    { type: 'MessageSent', events: 0, defined: true },
    { type: 'MessageStatusUpdated', events: 0, defined: true },
    { type: 'Reaction', events: 1, defined: false },
  ]);
});

test('only the newest events are read', async () => {
  await came('Reaction', { old: 1 });
  await came('Reaction', ...Array.from({ length: NEWEST }, () => ({ young: 1 })));
  await came('Other', { other: 1 });
  const { root, events } = await learnedOf('Reaction');
  expect(events).toBe(NEWEST);
  expect(linesOf(root)).toEqual([`young ${NEWEST} integer=${NEWEST}`]);
});

test('a rare type is found below weeks of events of another', async () => {
  await came('Rare', { a: 1 });
  records.clock.time += 15 * 86_400_000;
  await came('Often', ...Array.from({ length: 60 }, () => ({ b: 1 })));
  expect(linesOf((await learnedOf('Rare')).root)).toEqual(['a 1 integer=1']);
});

test('what trigger sent, what was purged and what is not readable any more is left out', async () => {
  await came('Reaction', { emoji: 'x' });
  const sent = { id: 'trigger_1', type: 'Reaction', sent_by: SENT_BY_KIT, data: { Reaction: { invented: 1 } } };
  const readings = [readDelivery(Buffer.from(JSON.stringify(sent)))];
  await records.store.ingest.accept({ readings, now: records.clock.time });
  await came('Reaction', { purged: 1 }, { broken: 1 });
  const events = 'update events set body';
  records.exec(`${events} = null where cursor = ${cursor - 1}`);
  records.exec(`${events} = ${onPostgres ? "'{'::bytea" : "cast('{' as blob)"} where cursor = ${cursor}`);
  expect(linesOf((await learnedOf('Reaction')).root)).toEqual(['emoji 1 string=1']);
});

test('the schema is compared: fields that never came, are missing, do not fit, or are not named', async () => {
  const right = { session_id: SESSION, from: 'x', message_id: 'y' };
  await came('MessageReceived', right, { ...right, from: 5 }, { ...right, reaction: 'z' }, { session_id: 'none' });
  const learnt = await learnedOf('MessageReceived');
  expect(fieldAt(learnt, 'body')).toMatchObject({ named: true, times: 0, missing: 0 });
  expect(fieldAt(learnt, 'from')).toMatchObject({ named: true, times: 3, missing: 1, misfits: 1 });
  expect(fieldAt(learnt, 'session_id')).toMatchObject({ named: true, times: 4, missing: 0, misfits: 1 });
  expect(fieldAt(learnt, 'reaction')).toMatchObject({ named: false, times: 1, missing: 0, misfits: 0 });
});

test('a schema of your own is compared in its objects, lists and maps, and may throw', async () => {
  const data = z.looseObject({
    media: z.looseObject({ mime: z.string() }).optional(),
    parts: z.array(z.union([z.object({ kind: z.string() }), z.null()])),
    phones: z.record(z.string(), z.number()).optional(),
  });
  defineFor('Own', { data: data.transform((all) => all.parts) });
  await came('Own', { media: { extra: 1 }, parts: [{ kind: 'a' }, null] }, { parts: [], phones: { ana: 1, eva: 'x' } });
  const learnt = await learnedOf('Own');
  expect(fieldAt(learnt, 'media', 'mime')).toMatchObject({ named: true, times: 0, missing: 1 });
  expect(fieldAt(learnt, 'media', 'extra')).toMatchObject({ named: false });
  expect(fieldAt(learnt, 'parts', '[]', 'kind')).toMatchObject({ named: true, times: 1 });
  expect(fieldAt(learnt, 'phones', KEY)).toMatchObject({ named: true, times: 2, misfits: 1 });
  expect(JSON.stringify(linesOf(learnt.root))).not.toMatch(/ana|eva/);

  const thrown = z.looseObject({}).refine(() => {
    throw new Error('a fault of the schema');
  });
  defineFor('Own', { data: thrown });
  expect((await learnedOf('Own')).root).toMatchObject({ misfits: 2 });
});

test.each<[string, object[]]>([
  ['phone numbers', [{ phones: { '5511999990000': 1, ana: 2 } }]],
  ['addresses', [{ phones: { 'ana@example.com': 1 } }]],
  ['ids without dashes', [{ phones: { a5f0c3a526f1e4c559a529d9f5b1f6d11: 1 } }]],
  ['names of people', ['ana', 'eva', 'ivo', 'leo'].map((name) => ({ phones: { [name]: { ana: 1 } } }))],
  ['names of properties', [JSON.parse('{"phones":{"__proto__":{"eva":1},"constructor":1}}') as object]],
  ['very many words', [{ phones: words(10_000) }]],
  ['many words, spread over events', Array.from({ length: 100 }, (_, n) => ({ phones: words(2, n * 2) }))],
])('%s as keys are shown as one key of a map', (_, all) => {
  const { fields } = learnedFrom(...all);
  expect([...fields.keys()]).toEqual(['phones']);
  expect([...(fields.get('phones')?.fields.keys() ?? [])]).toEqual([KEY]);
});

test('a key that is no word does not hide the names of the fields beside it', () => {
  const { fields } = learnedFrom({ from: 'x', 'content-type': 1 }, { from: 'y', 'content-type': 2 });
  expect([...fields.keys()]).toEqual(['from', KEY]);
});

test('however many names there are and however deep, few fields are kept', () => {
  const deep = JSON.parse(`${'{"a":['.repeat(30)}1${']}'.repeat(30)}`) as object;
  const wide = words(60, 0, words(60, 0, { one: 1, two: 2 }));
  const lines = linesOf(learnedFrom(deep, wide));
  expect(lines.length).toBe(5_000);
  expect(lines.filter((line) => line.startsWith('a.')).at(-1)).toBe('a.[].a.[].a.[] 1 object=1');
  expect(linesOf(learnedFrom(words(10_000), { late: 1 }))).toEqual(['<key> 5001 integer=5001']);
});

/** The definition that a text holds. */
function evaluated(text: string): EventType<Record<string, unknown>> {
  // oxlint-disable-next-line no-new-func, typescript/no-implied-eval -- the text is code
  const all = new Function('z', 'define', 'integer', 'orElse', `return {${text}}`) as (...given: unknown[]) => object;
  const [type] = Object.values(all(z, define, integer, orElse)) as EventType<Record<string, unknown>>[];
  if (!type) throw new Error('the text defines no type');
  return type;
}

test('a definition to paste requires ids that were always there, and gives other fields a value in their absence', async () => {
  const fields = { session_id: SESSION, message_id: '3EB0', emoji: '👍', at_unix_ms: '1767225600000', size: '12' };
  await came('Reaction', { ...fields, media: { ok: true } }, { ...fields, parts: [{ kind: 'x' }, null] });
  const text = textOf(await learnedOf('Reaction'));
  expect(text).toBe(`  Reaction: define({
    data: z.looseObject({
      session_id: z.guid(),
      message_id: z.string(),
      emoji: orElse(z.string(), ''),
      at_unix_ms: orElse(integer(), null),
      size: orElse(z.string(), ''),
      parts: orElse(z.array(orElse(z.looseObject({
        kind: orElse(z.string(), ''),
      }), null)), null),
      media: orElse(z.looseObject({
        ok: orElse(z.boolean(), false),
      }), null),
    }),
    example: ({ session, n, at }) => ({
      session_id: session,
      message_id: \`message_id-\${n}\`,
      emoji: 'text',
      at_unix_ms: at,
      size: '15550100',
      parts: [{
        kind: 'text',
      }],
      media: {
        ok: false,
      },
    }),
  }),`);
  const { data } = evaluated(text);
  expect(data.parse(fields)).toMatchObject({ at_unix_ms: 1_767_225_600_000, media: null });
});

test.each(["a'b", 'a\\', 'a.b', 'a`${1}`'])('the type %s is quoted in its definition', (type) => {
  const text = textOf({ type, events: 1, defined: false, root: learnedFrom({ a: 1 }) });
  // oxlint-disable-next-line no-new-func, typescript/no-implied-eval -- the text is code
  const all = new Function('z', 'define', 'integer', 'orElse', `return {${text}}`) as (...given: unknown[]) => object;
  expect(Object.keys(all(z, define, integer, orElse))).toEqual([type]);
});

test('any definition accepts all data that it was learned from, and its own example; it holds no value', () => {
  const names = fc.constantFrom(
    'id',
    'from_id',
    'a',
    'at_unix_ms',
    '__proto__',
    '5511999990000',
    'constructor',
    'n',
    'at',
  );
  const values = fc.oneof(
    fc.jsonValue({ maxDepth: 4 }),
    fc.constantFrom('12', '1767225600000', '9007199254740993', SESSION, '2026-01-02T03:04:05Z', '', null, 5, 5.5),
    fc.array(fc.dictionary(names, fc.constantFrom<unknown>(1, null, 'x', [], {}))),
    fc.dictionary(names, fc.constantFrom<unknown>(1, null, 'x', [null], {})),
  );
  fc.assert(
    fc.property(fc.array(fc.dictionary(names, values), { minLength: 1, maxLength: 6 }), (all) => {
      const text = textOf({ type: 'Any', events: all.length, defined: false, root: learnedFrom(...all) });
      const { data, example } = evaluated(text);
      for (const one of all) expect(data.safeParse(one).error, text).toBeUndefined();
      const about = { n: 1, session: SESSION, at: 1 };
      expect(data.safeParse(example?.(about)).error, text).toBeUndefined();
      expect(text).not.toMatch(/5511999990000|3EB0|Z'/);
    }),
  );
});
