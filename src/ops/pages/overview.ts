// The overview: health, the alarms with their remedies, figures, the handlers, the store, and charts over time.
import { readSignatureJudgement } from '../../receive/bad-signatures.ts';
import { FAILURES_ALLOWED } from '../../receive/delivery-health.ts';
import { orNone } from '../../store/or-none.ts';
import { iso } from '../../base/clock.ts';
import type { AlarmRules } from '../../keep/module.ts';
import type { Alarm, Sample, Status } from '../../store/read.ts';
import type { OpsContext } from '../context.ts';
import { createCharts } from './charts.ts';
import { lanesTable } from './handler.ts';
import { handlersTable } from './handlers.ts';
import { besides, nameOf, rangeOf, RANGES, samplesOf, type Range } from './samples.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { screenAt } from './shell/layout.ts';
import { ago, code, count, figures, fold, span, state, table, time, type Figure } from './shell/parts.ts';
import { storeBlock } from './store-block.ts';

const OLD_SECONDS = 300;
const LANES = 8;

/** It appears and reports the fault if the store cannot be read. */
export async function overview(
  { ctx, status, health, now, reads, mayChange }: Visit,
  { store, rules, disk, config }: OpsContext,
): Promise<Html> {
  const range = rangeOf(ctx.query['range']);
  const samples = (await orNone(() => samplesOf(store.read, range, now))) ?? [];
  const { recent, week } = (await orNone(() => besides(store.read, now))) ?? { recent: [], week: [] };
  const handlers = (await orNone(() => store.read.handlers(now))) ?? [];
  const lanes = (await orNone(() => reads.waitingLanes(LANES))) ?? [];
  const mismatch = (await orNone(() => readSignatureJudgement(store, status, now)))?.mismatch ?? false;
  const extent = (await orNone(() => store.read.extent())) ?? null;
  const backup = (await orNone(() => store.state.get('backup'))) ?? null;
  const size = (await orNone(() => disk())) ?? null;
  const from = now - RANGES[range].ms;
  const charts = createCharts(samples, { from, to: now });
  const here = range === '1h' ? '/' : `/?range=${range}`;
  return html`<div class="health ${health.tone}">
      <p class="word">${health.word}</p>
      <p>${health.words}</p>
    </div>
    ${moving(status)} ${alarms(status.alarms, rules, now)} ${figures(keyFigures(status, rules, mismatch, now))}
    ${fold('Over time', html`${ranges(range, samples, from)} ${charts.attempts()}`)}
    <h2>Handlers</h2>
    ${handlersTable({ handlers, samples, recent, range, now, mayChange }, here)}
    <h2>The dedup store</h2>
    ${storeBlock({ status, now, disk: size, extent, backup, week, retentionDays: config.RETENTION_DAYS })}
    ${samples.length < 2 ? null : fold('More over time', html`<div class="charts">${charts.others()}</div>`)}
    ${status.instances.length > 0 ? instances(status) : null}
    <h2>Lanes in which most tasks wait</h2>
    ${lanesTable(lanes)}`;
}

function moving({ moving: now }: Status): Html | null {
  if (!now) return null;
  return html`<p>The store is being moved: ${count(now.rows)} of ${count(now.of)} rows are copied. Handlers pause.</p>`;
}

/** Critical alarms are the first. On a phone, all others are folded. */
function alarms(up: Alarm[], rules: AlarmRules, now: number): Html | null {
  const gravityOf = ({ name }: Alarm): string => rules[name]?.gravity ?? 'warning';
  const [first, ...others] = up
    .toSorted((a, b) => gravityOf(a).localeCompare(gravityOf(b)))
    .map((alarm) => alarmOf(alarm, rules[alarm.name], now));
  if (!first) return null;
  const more = html`<details class="fold">
    <summary>${others.length === 1 ? '1 more alarm' : `${others.length} more alarms`}</summary>
    <ul class="alarms">
      ${others}
    </ul>
  </details>`;
  return html`<section id="alarms" aria-label="Alarms">
    <ul class="alarms">
      ${first}
    </ul>
    ${others.length > 0 ? more : null}
  </section>`;
}

function alarmOf({ name, since, detail }: Alarm, rule: AlarmRules[string] | undefined, now: number): Html {
  const page = rule?.page;
  return html`<li class="${rule?.gravity}">
    <p><b>${name}</b> <span class="soft">${rule?.gravity ?? 'warning'}, raised ${ago(since, now)}</span></p>
    <p>${detail}</p>
    ${rule ? html`<p><b>Remedy:</b> ${rule.remedy}</p>` : null}
    <p class="row">
      ${page === undefined ? null : html`<a class="button" href="${page}">Go to ${screenAt(page)?.name ?? 'the screen'}</a>`}
      <a href="/runbook#${name}">Runbook<span class="unseen"> on ${name}</span></a>
    </p>
  </li>`;
}

/** `mismatch`: WEBHOOK_SECRET is probably wrong. */
function keyFigures(status: Status, rules: AlarmRules, mismatch: boolean, now: number): Figure[] {
  const { tasks, unassigned, oldestReadySeconds, failureRun, failures, lastDeliveryAt, processes, reconcile } = status;
  const forged = failures.badSignatures > 0 ? `${count(failures.badSignatures)} since with a bad signature` : null;
  const waiting = tasks.ready + tasks.held + tasks.running + unassigned;
  const wait = oldestReadySeconds === null ? 'none is due' : `the oldest for ${span(oldestReadySeconds)}`;
  const isOld = (oldestReadySeconds ?? 0) > OLD_SECONDS;
  const dead = tasks.dead === 0 ? 0 : html`<a href="/dead-letters">${count(tasks.dead)}</a>`;
  const run = `${failureRun}${failureRun > FAILURES_ALLOWED ? ', past ' : ' / '}${FAILURES_ALLOWED}`;
  const causes = Object.entries(failures.causes).map(([cause, n]) => `${n} × ${cause}`);
  const off = `at ${FAILURES_ALLOWED} the webhook is switched off`;
  const runTone = failureRun >= 10 ? 'bad' : failureRun >= 3 ? 'warn' : undefined;
  const lives = Object.entries(processes).map(([role, life]) =>
    life === 'up' ? html`${state('good', role)} ` : html`${state('bad', `${role} is down`)} `,
  );
  return [
    { name: 'Last delivery', value: ago(lastDeliveryAt, now), note: forged, tone: mismatch ? 'warn' : undefined },
    { name: 'Waiting', value: waiting, note: wait, tone: isOld ? 'warn' : undefined },
    { name: 'Dead letters', value: dead, tone: tasks.dead > 0 ? 'warn' : undefined },
    missing(status, rules, now),
    { name: 'Failures in a row', value: run, note: failureRun === 0 ? off : causes.join(', '), tone: runTone },
    { name: 'Processes', value: html`${lives}`, note: `reconciliation: ${reconcile.state}` },
  ];
}

function missing({ gaps, reconcile, watermark, alarms: up }: Status, rules: AlarmRules, now: number): Figure {
  const name = 'Missing';
  const note = html`looked ${reconcile.lastAt === null ? 'never yet' : ago(reconcile.lastAt, now)}`;
  const value = html`<a href="/reconciliation">${gaps === 1 ? '1 gap' : `${count(gaps)} gaps`}</a>`;
  if (gaps > 0) return { name, value, note, tone: 'warn' };
  const isUnclear = up.some(({ name: alarm }) => rules[alarm]?.deliveries === 'missing');
  if (isUnclear || reconcile.state === 'stopped') return { name, value: 'not known', note, tone: 'warn' };
  if (reconcile.state === 'off') return { name, value: 'not known', note: 'reconciliation is off' };
  return { name, value: watermark === null ? 'nothing, as far as known' : 'nothing', note };
}

function ranges(range: Range, samples: Sample[], from: number): Html {
  const first = samples[0]?.at ?? from;
  return html`<p class="ranges">
    ${(Object.keys(RANGES) as Range[]).map(
      (name) =>
        html`<a href="/?range=${name}" ${name === range ? html`aria-current="true"` : null}>${nameOf(name)}</a>`,
    )}
    ${first - from > RANGES[range].stepMs ? html`<span class="soft">There are figures since ${time(iso(first))}.</span>` : null}
  </p>`;
}

function instances({ instances: all }: Status): Html {
  return html`<h2>Instances</h2>
    ${table(
      'Instances that share the store',
      ['instance', 'state', 'processes', 'handlers', 'version', 'since'],
      all.map(({ name, lostAt, leads, processes, handlers, version, since }) => {
        const life = leads ? html`<b>leads</b>` : 'stands by';
        const its = lostAt === null ? state('good', life) : state('bad', html`lost since ${time(lostAt)}`);
        return [code(name), its, processes.join(' ') || null, count(handlers.length), version, time(since)];
      }),
      'No instance gives signs of life.',
    )}`;
}
