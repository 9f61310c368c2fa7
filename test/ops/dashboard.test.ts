// The Grafana dashboard and the scrape example: they name what the code has, and Prometheus' own tool can read them.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { HISTOGRAMS, METRICS } from '../../src/ops/metrics.ts';

interface Panel {
  type: string;
  title: string;
  description?: string;
  fieldConfig?: { defaults: { unit?: string } };
  targets?: { expr: string }[];
}

const dashboard = JSON.parse(readFileSync('src/ops/dashboard.json', 'utf8')) as {
  schemaVersion: number;
  panels: Panel[];
  templating: { list: { name: string; type: string; query: string }[] };
  annotations: { list: { expr: string }[] };
};
const charts = dashboard.panels.filter(({ type }) => type !== 'row');
const expressions = [...charts.flatMap(({ targets = [] }) => targets), ...dashboard.annotations.list].map(
  ({ expr }) => expr,
);
const known = [
  ...Object.keys(METRICS),
  ...Object.keys(HISTOGRAMS).flatMap((name) => ['bucket', 'sum', 'count'].map((part) => `${name}_${part}`)),
];

const promtool = (...args: string[]) => spawnSync('promtool', args, { encoding: 'utf8' });
const missing = promtool('--version').error !== undefined;

function folder(): string {
  const at = mkdtempSync(join(tmpdir(), 'kit-prometheus-'));
  onTestFinished(() => rmSync(at, { recursive: true }));
  return at;
}

test('the dashboard is for Grafana 11 or later, and lets people choose data source and instance', () => {
  expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(39);
  expect(dashboard.templating.list.map(({ name, type }) => [name, type])).toEqual([
    ['datasource', 'datasource'],
    ['job', 'query'],
    ['instance', 'query'],
  ]);
  expect(JSON.stringify(dashboard)).not.toMatch(/"uid":"(?!\$\{datasource\}|webhook-receiver-kit)/);
});

test('the dashboard has rows for deliveries, handlers, store and recovery', () => {
  const rows = dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title);
  expect(rows).toEqual(['Deliveries', 'Handlers', 'Store', 'Recovery']);
});

test.each(charts)('the panel $title has a unit, a description, and expressions', (panel) => {
  expect(panel.fieldConfig?.defaults.unit).toMatch(/^\w+$/);
  expect(panel.description).toMatch(/^\S.*\.$/);
  expect(panel.targets?.length).toBeGreaterThan(0);
});

test('the dashboard names only existing metrics', () => {
  const named = expressions.flatMap((expr) => expr.match(/\b(kit|process|nodejs)_\w+(?=\{)/g) ?? []);
  expect(named.length).toBeGreaterThanOrEqual(expressions.length);
  expect(named.filter((name) => name.startsWith('kit_') && !known.includes(name))).toEqual([]);
});

test('every metric of the kit is on the dashboard', () => {
  const all = expressions.join('\n');
  const names = [...Object.keys(METRICS), ...Object.keys(HISTOGRAMS)];
  expect(names.filter((name) => !new RegExp(`\\b${name}(_bucket)?\\{`).test(all))).toEqual([]);
});

test.skipIf(missing)('promtool parses every expression of the dashboard', () => {
  const values = { __rate_interval: '5m', __range: '6h', instance: '.*', job: 'kit' };
  const rules = expressions.map((expr, i) => {
    const filled = expr.replaceAll(/\$(\w+)/g, (_, name: string) => values[name as keyof typeof values]);
    return { record: `panel:${i}`, expr: filled };
  });
  const file = join(folder(), 'rules.yaml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
  const { status, stdout, stderr } = promtool('check', 'rules', file);
  expect(status, stdout + stderr).toBe(0);
  expect(stdout).toContain(`${expressions.length} rules found`);
});

test.skipIf(missing)('promtool accepts the scrape example, with its rules and a token file', () => {
  const at = folder();
  for (const file of ['prometheus.yaml', 'alerts.yaml']) copyFileSync(join('src/ops', file), join(at, file));
  writeFileSync(join(at, 'ops-read-token'), 'looks-0123456789');
  const { status, stdout, stderr } = promtool('check', 'config', join(at, 'prometheus.yaml'));
  expect(status, stdout + stderr).toBe(0);
  expect(stdout).toContain('1 rule files found');
});
