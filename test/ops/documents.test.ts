// Metrics, alarms, alert rules, runbook and log fields: what is documented is what there is, and the other way round.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ALARMS } from '../../src/alarms/rules.ts';
import { ACKS, METRICS } from '../../src/ops/metrics.ts';

const list = readFileSync('src/ops/README.md', 'utf8');
const rules = readFileSync('src/ops/alerts.yaml', 'utf8')
  .split('- alert: ')
  .slice(1)
  .map((text) => ({
    name: text.split('\n')[0] ?? '',
    text,
    expr: /expr: (.+)/.exec(text)?.[1] ?? '',
    runbook: /runbook: src\/ops\/runbook\.md#(\w+)/.exec(text)?.[1],
  }));
const paragraphs = new Map(
  readFileSync('src/ops/runbook.md', 'utf8')
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.split('\n')[0] ?? '', text]),
);

test('the list of metrics is the one of the code, name by name, with type, labels and help', () => {
  const lines = list.split('\n').filter((line) => line.startsWith('| `kit_'));
  const documented = lines.filter((line) => !line.includes('| histogram |'));
  expect(lines.filter((line) => !documented.includes(line))).toEqual([
    `| \`${ACKS[0]}\` | histogram |  | ${ACKS[1]} |`,
  ]);
  const written = METRICS.map(([name, help, labels]) => {
    const type = name.endsWith('_total') ? 'counter' : 'gauge';
    return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`;
  });
  expect(documented.map((line) => line.replaceAll(/ +/g, ' '))).toEqual(
    written.map((line) => line.replaceAll(/ +/g, ' ')),
  );
});

test.each(METRICS)('%s is named as Prometheus asks', (name, help) => {
  expect(name).toMatch(/^kit_[a-z_]+$/);
  expect(name).not.toMatch(/_(ms|milliseconds|minutes|kb|mb|count)(_|$)/);
  expect(help).toMatch(/^[A-Z1].*\.$/);
});

test.each(ALARMS)('the alarm %s has a rule', (alarm) => {
  const name = `Kit${alarm.replaceAll(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}`;
  expect(rules.filter((rule) => rule.name === name)).toMatchObject([
    { expr: `kit_alarm{name="${alarm}"} == 1`, runbook: alarm },
  ]);
});

test.each(rules)(
  'the rule $name names metrics that there are, and a paragraph that says what to do',
  ({ expr, text, runbook }) => {
    const names = METRICS.map(([name]) => name);
    for (const [metric] of expr.matchAll(/\b[a-z]+_[a-z_]+\b(?=\{)/g)) expect(names).toContain(metric);
    expect(text).toMatch(/for: \d+m/);
    expect(text).toMatch(/severity: (critical|warning)/);
    expect(text).toMatch(/description: "?\S/);
    const paragraph = paragraphs.get(runbook ?? '');
    expect(paragraph).toMatch(/\*\*Look:\*\* \S/);
    expect(paragraph).toMatch(/\*\*Do:\*\* \S/);
  },
);

test('the runbook has a paragraph for each rule, and no other', () => {
  expect([...paragraphs.keys()]).toEqual(rules.map(({ runbook }) => runbook));
});

test("the runbook's metrics are metrics, and its commands are the kit's", () => {
  const runbook = [...paragraphs.values()].join('');
  const names = METRICS.map(([name]) => name);
  for (const [metric] of runbook.matchAll(/\bkit_[a-z_]+\b/g)) expect(names).toContain(metric);
  for (const [, command] of runbook.matchAll(/npx kit (\w+)/g))
    expect(() => readFileSync(`src/cli/commands/${command}.ts`), command).not.toThrow();
});
