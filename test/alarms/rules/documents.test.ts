// Each alarm is one object: its rule in alerts.yaml repeats the object's texts, and the runbook has its section.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { RULES } from '../../../src/alarms/rules/index.ts';

/** The rules in alerts.yaml that stand for no alarm: the kit is down and cannot raise any, or a metric tells. */
const WITHOUT_ALARM = ['target_down', 'not_ready', 'handler_behind'];

const alerts = readFileSync('src/ops/alerts.yaml', 'utf8')
  .split(/^ {6}- alert: /m)
  .slice(1);
const headings = [...readFileSync('src/ops/runbook.md', 'utf8').matchAll(/^## (.+)$/gm)].map(([, name = '']) => name);

function alertName(alarm: string): string {
  return `Kit${alarm.replaceAll(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}`;
}

test.each(Object.entries(RULES))('the alert of %s has its gravity, its remedy and a runbook link', (name, rule) => {
  const { gravity, remedy } = rule;
  const [found = ''] = alerts.filter((text) => text.startsWith(`${alertName(name)}\n`));
  const minutes = /for: (\d+)m/.exec(found)?.[1];
  const summary = /summary: (\w.+)/.exec(found)?.[1];
  expect(found.trimEnd()).toBe(`${alertName(name)}
        expr: kit_alarm{name="${name}"} == 1
        for: ${minutes}m
        labels:
          severity: ${gravity}
        annotations:
          summary: ${summary}
          description: '${remedy}'
          runbook_url: 'http://{{ $labels.instance }}/runbook#${name}'`);
});

test('there is an alert for each alarm, and no other', () => {
  const names = [...WITHOUT_ALARM, ...Object.keys(RULES)].map(alertName);
  expect(new Set(alerts.map((text) => text.split('\n')[0]))).toEqual(new Set(names));
  expect(alerts).toHaveLength(names.length);
});

test('the runbook has a paragraph for each alarm, and no other', () => {
  expect(headings.toSorted()).toEqual([...WITHOUT_ALARM, ...Object.keys(RULES)].toSorted());
});
