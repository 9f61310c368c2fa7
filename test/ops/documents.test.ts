// Metrics, alarms, rules, runbook and log fields: the documents and the code name the same ones.
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RULES } from '../../src/alarms/rules/index.ts';
import { HISTOGRAMS, METRICS } from '../../src/ops/metrics.ts';
import { itemsUnder, rowsUnder, withItems } from '../documents.ts';
import { createOps, NOTHING_SET, type Ops } from './harness.ts';

const ALARMS = Object.keys(RULES);
const LIST = 'src/ops/README.md';
const rules = readFileSync('src/ops/alerts.yaml', 'utf8')
  .split('- alert: ')
  .slice(1)
  .map((text) => ({
    name: text.split('\n')[0] ?? '',
    text,
    expr: /expr: (.+)/.exec(text)?.[1] ?? '',
    runbook: /runbook(?:: src\/ops\/runbook\.md|_url: 'http:\/\/\{\{ \$labels\.instance \}\}\/runbook)#(\w+)/.exec(
      text,
    )?.[1],
  }));
const paragraphs = new Map(
  readFileSync('src/ops/runbook.md', 'utf8')
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.split('\n')[0] ?? '', text]),
);

test('src/ops/README.md lists the metrics of the code: names, labels and help', async () => {
  const items = Object.entries({ ...METRICS, ...HISTOGRAMS }).map(
    ([name, { help, labels = [] }]) => `\`${name}${labels.length > 0 ? `{${labels.join(',')}}` : ''}\`: ${help}`,
  );
  await expect(withItems(readFileSync(LIST, 'utf8'), LIST, 'Metrics', items)).toMatchFileSnapshot(resolve(LIST));
});

test.each(Object.entries({ ...METRICS, ...HISTOGRAMS }))(
  '%s follows the naming rules of Prometheus',
  (name, { help }) => {
    expect(name).toMatch(/^kit_[a-z_]+$/);
    expect(name).not.toMatch(/_(ms|milliseconds|minutes|kb|mb|count)(_|$)/);
    expect(help).toMatch(/^[A-Z1].*\.$/);
  },
);

test.each(ALARMS)('the alarm %s has an alert rule', (alarm) => {
  const name = `Kit${alarm.replaceAll(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}`;
  expect(rules.filter((rule) => rule.name === name)).toMatchObject([
    { expr: `kit_alarm{name="${alarm}"} == 1`, runbook: alarm },
  ]);
});

test.each(rules)(
  'the rule $name names existing metrics, and a paragraph of the runbook that says what to do',
  ({ expr, text, runbook }) => {
    const names = Object.keys(METRICS);
    for (const [metric] of expr.matchAll(/\b[a-z]+_[a-z_]+\b(?=\{)/g)) expect(names).toContain(metric);
    expect(text).toMatch(/for: \d+m/);
    expect(text).toMatch(/severity: (critical|warning)/);
    expect(text).toMatch(/description: "?\S/);
    const paragraph = paragraphs.get(runbook ?? '');
    expect(paragraph).toMatch(/\*\*Look:\*\* \S/);
    expect(paragraph).toMatch(/\*\*Do:\*\* \S/);
  },
);

test('the runbook has a paragraph for each rule and each alarm, and no other', () => {
  expect([...paragraphs.keys()]).toEqual(rules.map(({ runbook }) => runbook));
  expect([...paragraphs.keys()].toSorted()).toEqual(
    ['target_down', 'not_ready', 'handler_behind', ...ALARMS].toSorted(),
  );
});

test('the runbook names only existing metrics', () => {
  const named = [...paragraphs.values()].join('').match(/\bkit_[a-z_]+\b/g) ?? [];
  expect(named.length).toBeGreaterThan(3);
  for (const metric of named) expect(Object.keys(METRICS)).toContain(metric);
});

test('E29: the documents say that the webhook stops with its API key, and how to rotate that key', () => {
  const deploy = readFileSync('src/processes/README.md', 'utf8');
  const [, section = ''] = deploy.split('## Rotate the API key\n');
  for (const words of ['expires, is revoked or loses `events:read`', 'the same key', 'register the webhook again'])
    expect(section.split('\n## ')[0]).toContain(words);
  for (const text of [paragraphs.get('reconcile_stopped'), /## Go live[^]*?\n## /.exec(deploy)?.[0]])
    expect(text).toContain('#rotate-the-api-key');
});

interface Route {
  method: string;
  path: string;
  needs: string;
}

const routes: Route[] = rowsUnder(LIST, 'HTTP API').map(([request = '', needs = '']) => {
  const [, method = '', path = ''] = /^`(GET|POST) (\S+)`$/.exec(request) ?? [];
  return { method, path, needs };
});

test('src/ops/README.md lists the routes of the API, and no other', () => {
  const source = readFileSync('src/ops/api.ts', 'utf8');
  const inCode = [...source.matchAll(/router\.(get|post)\(['`]([^'`]+)['`]/g)].map(
    ([, method = '', path = '']) =>
      new RegExp(`^${method.toUpperCase()} ${path.replaceAll('.', '\\.').replaceAll(/:\w+|\$\{\w+\}/g, '[^/]+')}$`),
  );
  expect(inCode.length).toBeGreaterThan(10);
  const written = routes.map(({ method, path }) => `${method} ${path}`);
  expect(inCode.filter((route) => !written.some((one) => route.test(one)))).toEqual([]);
  expect(written.filter((one) => !inCode.some((route) => route.test(one)))).toEqual([]);
});

const [TOKEN, READ_TOKEN] = ['the-token-that-may-change-things', 'the-token-that-may-only-look'];

/** The statuses of a request without a token, with OPS_READ_TOKEN, and with OPS_TOKEN. */
async function answersOf(ops: Ops, { method, path }: Route): Promise<number[]> {
  const answers: number[] = [];
  for (const token of [undefined, READ_TOKEN, TOKEN]) {
    const headers = { ...(token && { authorization: `Bearer ${token}` }), 'content-type': 'application/json' };
    const to = path.replaceAll(/<\w+>/g, '1');
    answers.push((await ops.send(method, to, headers, method === 'POST' ? '{ "filter": {} }' : '')).status);
  }
  return answers;
}

test.each(routes)('$method $path needs: $needs', async (route) => {
  const ops = await createOps({ ...NOTHING_SET, OPS_TOKEN: TOKEN, OPS_READ_TOKEN: READ_TOKEN });
  const open = await createOps();
  onTestFinished(() => Promise.all([ops.close(), open.close()]).then(() => undefined));
  const refused = (await answersOf(ops, route)).map((status) => status === 401);
  expect(refused).toEqual([route.needs !== '', ['change', 'bodies'].includes(route.needs), false]);
  expect((await answersOf(open, route))[0] === 403).toBe(route.needs === 'bodies');
});

/** The field names of an object literal. Names inside its calls and spreads do not count. */
function namesIn(literal: string): string[] {
  const flat = literal.replaceAll(/\([^()]*\)/g, '').replaceAll(/\([^()]*\)|\.\.\.[^,}]*|\[[^\]]*\]:/g, '');
  return flat.match(/(?<=[{,]\s*)\w+(?=\s*[:,}])/g) ?? [];
}

test('src/ops/README.md lists every field of the log lines', () => {
  const listed = new Set(itemsUnder(LIST, 'Log lines').flatMap((item) => item.split(': ')[0]?.match(/\w+/g) ?? []));
  const sources = globSync('src/**/*.ts', { exclude: ['src/tools/**', 'src/handlers/**', 'src/kit.ts'] });
  const logged = sources.flatMap((file) => [
    ...readFileSync(file, 'utf8').matchAll(/\blog\??\.(?:debug|info|warn|error|fatal)\(\s*(\{[^]*?\}),/g),
  ]);
  const given = new Set(logged.flatMap(([, literal = '']) => namesIn(literal)));
  expect(given.size).toBeGreaterThan(25);
  expect([...given].filter((name) => !listed.has(name))).toEqual([]);
});
