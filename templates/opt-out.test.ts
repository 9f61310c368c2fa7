import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from './opt-out.ts';

const said = (body: string, from = '15550100', is_group = false) =>
  fixture('MessageReceived', { data: { body, from, is_group } });
const STATES = 'select peer, state from opt_out order by peer';

test('only a message that is the word alone opts out', async () => {
  const words = ['STOP', ' Stop! ', '"STOP"', 'Saír.', 'PARAR 🙏', 'ＳＴＯＰ', '\u200bstop'];
  const others = ['please stop calling', 'stop it', 's t o p', 'Não vou sair', '', '!', `stop${'!'.repeat(40)}`];
  const { query, log } = await deliver(
    handler,
    [...words, ...others].map((body) => said(body, JSON.stringify(body))),
  );
  const out = (await query(STATES)).map(({ peer }) => JSON.parse(String(peer)) as string);
  expect(out.toSorted()).toEqual(words.toSorted());
  expect(log).toContainEqual(expect.objectContaining({ msg: 'opt-out changed', state: 'out' }));
  expect(JSON.stringify(log)).not.toMatch(/sair/i);
});

test.each(['given', 'reversed', 'shuffled'] as const)(
  'the last word wins, in any order of events: %s',
  async (order) => {
    const events = [said('STOP'), said('Voltar'), said('SAIR'), said('sair', '15550101'), said('START', '15550101')];
    const { query, tasks } = await deliver(handler, events, { order, times: 2, apartMs: 1_000, crashAfter: 3 });
    expect(tasks.every(({ state }) => state === 'done')).toBe(true);
    expect(await query(STATES)).toEqual([
      { peer: '15550100', state: 'out' },
      { peer: '15550101', state: 'in' },
    ]);
  },
);

test('a word in a group is skipped', async () => {
  const { tasks, query } = await deliver(handler, said('STOP', '15550100', true));
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(await query(STATES)).toEqual([]);
});
