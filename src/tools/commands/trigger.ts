// Sends a signed event to the kit, as the service does, and says what each answer means.
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { orUndefined } from '../../base/errors.ts';
import { cursorArg, flag } from '../../operations/arguments.ts';
import { define, Refused } from '../../operations/define.ts';
import { ANSWERS } from '../../operations/doctor.ts';
import { post } from '../../operations/post.ts';
import { faultOf } from '../../run/load.ts';
import { typeOf, typesFault } from '../../wire/event-types.ts';
import { fixture, signedRequest } from '../testing/fixture.ts';

const SESSION = '00000000-0000-4000-8000-000000000001';
const json = (text: unknown): unknown => orUndefined(() => JSON.parse(String(text)) as unknown);
const assignment = z.string().regex(/^\w+=/, 'must be field=value, like body=hello');

export const trigger = define({
  name: 'trigger',
  about: 'sends a signed event to the kit on this machine, and says what was answered',
  args: z.object({
    type: z.string().regex(/^(?!kit\.)[\x21-\x7e]{1,200}$/, 'must be a type of the service, like MessageReceived'),
    data: z
      .preprocess(json, z.record(z.string(), z.unknown(), 'must be an object in JSON'))
      .default({})
      .describe('its data, in JSON'),
    set: z
      .preprocess((given) => [given].flat(), z.array(assignment))
      .default([])
      .describe('field=value: sets one field of the data; a text needs no quotes'),
    cursor: cursorArg.nullable().default(null).describe('its place in the history; default: none'),
    times: z.coerce.number().int().min(1).max(1_000).default(1).describe('how often it is delivered'),
    url: z.url().optional().describe('the address of the receiver; default: the kit of .env, on this machine'),
    badSignature: flag.describe('signs with another secret: 401 is expected'),
    old: z.coerce.number().int().min(0).default(0).describe('how many seconds ago it was signed'),
  }),
  first: ['type'],
  access: 'change',
  async run({ config, clock }, { type, data, set, cursor, times, url, badSignature, old }) {
    const { PORT, WEBHOOK_PATH: path, WEBHOOK_SECRET: own, WEBHOOK_HEADER_PREFIX: prefix, ...more } = config();
    // Without the types of src/events.ts, the example data would be empty.
    if (typesFault !== undefined) throw new Refused(faultOf(typesFault, 'src/events.ts'));
    const at = clock.now();
    const example = { ...(typeOf(type)?.example?.({ n: at, session: SESSION, at }) as object) } as typeof data;
    const texts = set.map((text) => /^(\w+)=(.*)$/s.exec(text)?.slice(1) ?? []);
    const fields = texts.map(([name = '', text]) => [
      name,
      typeof example[name] === 'string' ? text : (json(text) ?? text),
    ]);
    const all = { ...example, ...data, ...(Object.fromEntries(fields) as object) };
    // The prefix `kit_` tells `receive` that this event is not from the service.
    const about = { id: `kit_${randomUUID()}`, cursor, createdAt: new Date(at).toISOString() };
    const event = fixture<string>(type, { ...about, data: all });
    const secret = badSignature ? `whsec_${randomUUID()}` : (own[0] ?? '');
    const expected = badSignature || old > more.TIMESTAMP_TOLERANCE_SECONDS ? '401' : '204';
    const deliveries = [];
    for (let attempt = 1; attempt <= times; attempt++) {
      const { headers, body } = signedRequest(event, { secret, prefix, attempt, at: clock.now() - old * 1_000 });
      const answer = (await post(url ?? `http://localhost:${PORT}${path}`, body, headers)) ?? '204';
      const meaning = answer === '204' ? 'it is stored, or was stored before' : (ANSWERS[answer] ?? 'it is not taken');
      deliveries.push({ answer, expected, meaning });
    }
    const key = cursor === null ? `i:${about.id}` : `c:${cursor}`;
    const isStored = deliveries.some(({ answer }) => answer === '204');
    return { deliveries, words: isStored ? `What became of it: npx kit explain ${key}` : 'Nothing was taken' };
  },
  fails: ({ deliveries }) => deliveries.some(({ answer, expected }) => answer !== expected),
});
