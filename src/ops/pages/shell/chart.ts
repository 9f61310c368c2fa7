// Line charts as SVG, without a script. Screen readers get a description and a table.
import { iso } from '../../../base/clock.ts';
import { html, type Html } from './html.ts';
import { table } from './parts.ts';

export interface Series {
  name: string;
  /** One value for each time. Null: not known. */
  values: (number | null)[];
  /** Shown beside the name of the series. */
  sum: string;
}
/** Something that happened, shown as a vertical line. */
export interface Mark {
  at: number;
  kind: 'restart' | 'alarm';
  words: string;
}
export interface ChartOptions {
  title: string;
  /** The range that the width shows, Unix milliseconds. */
  from: number;
  to: number;
  /** Unix milliseconds. */
  times: number[];
  series: Series[];
  show: (value: number) => string;
  /** The axis is logarithmic, from 1 up to this value. Absent: linear, up to the greatest value. */
  logUpTo?: number;
  marks?: Mark[];
}

/** The plot is stretched to the width of the chart, so these units are no pixels; the height is in pixels. */
const WIDTH = 1_000;
const HEIGHT = 100;
/** Above the plot, pixels. Beneath it are the times. */
const TOP = 8;
const ROWS = 12;
/** The maximum of areas that show figures while the pointer is over them. */
const AREAS = 60;
const DAY_MS = 86_400_000;
const TICK_MINUTES = [1, 5, 15, 60, 120, 360, 1_440, 2_880];
const TICKS = 5;

export function chart(options: ChartOptions): Html {
  const { title, from, to, times, series, show, logUpTo, marks = [] } = options;
  if (times.length === 0) {
    return html`<figure>
      <figcaption><b>${title}</b></figcaption>
      <p class="empty">The chart appears after some minutes.</p>
    </figure>`;
  }
  const top = logUpTo ?? niceTop(Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0))));
  const share = (value: number): number =>
    logUpTo === undefined ? value / top : Math.log(Math.max(1, value)) / Math.log(top);
  const x = (at: number): number => round(((at - from) / (to - from)) * WIDTH);
  const y = (value: number): number => round(HEIGHT - Math.min(1, share(value)) * HEIGHT);
  const grid = logUpTo === undefined ? [0, top / 2, top] : [1, 10, 100, 1_000, 10_000].filter((mark) => mark <= top);
  const line = (name: string, stretch: number[], values: (number | null)[]): Html => {
    const points = stretch.map((at) => [x(times[at] ?? 0), y(values[at] ?? 0)] as const);
    // A line with a single point would be invisible, so it gets a second one.
    const [alone] = points.length === 1 ? points : [];
    if (alone) points.push([alone[0] - WIDTH / 120, alone[1]]);
    return html`<polyline class="${name}" points="${points.join(' ')}" />`;
  };
  const id = title.toLowerCase().replaceAll(/[^a-z]+/g, '-');
  const words = series.map(({ name, sum }) => `${name} ${sum}`).join(', ');
  return html`<figure>
    <figcaption>
      <b>${title}</b
      >${series.map((one, i) => html`<span><span class="${classOf(one, i)}">●</span> ${one.name} ${one.sum}</span>`)}
      ${[...new Set(marks.map(({ kind }) => kind))].map((kind) => html`<span><span class="${kind}">┊</span> ${kind}</span>`)}
    </figcaption>
    <svg class="chart" role="img" aria-labelledby="${id}-title ${id}-words">
      <title id="${id}-title">${title}</title>
      <desc id="${id}-words">
        From ${clockTime(from)} to ${clockTime(to)}: ${words}. The table below has the figures.
      </desc>
      ${grid.map((mark) => html`<text x="-6" y="${TOP + y(mark) + 4}" text-anchor="end">${show(mark)}</text>`)}
      ${ticks(from, to).map(
        (at) =>
          html`<text x="${round(x(at) / 10)}%" y="${TOP + HEIGHT + 16}" text-anchor="${anchorOf(x(at))}"
            >${tickOf(at, to - from)}</text
          >`,
      )}
      <svg y="${TOP}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none">
        ${grid.map((mark) => html`<line class="grid" x2="${WIDTH}" y1="${y(mark)}" y2="${y(mark)}" />`)}
        ${marks.map(({ at, kind }) => html`<line class="${kind}" x1="${x(at)}" x2="${x(at)}" y2="${HEIGHT}" />`)}
        ${series.map((one, i) => stretches(one.values).map((stretch) => line(classOf(one, i), stretch, one.values)))}
        ${areas(options, x)}
      </svg>
    </svg>
    <details>
      <summary>${title} as a table</summary>
      ${figuresOf(options)}
    </details>
  </figure>`;
}

function classOf({ name }: Series, place: number): string {
  return name === 'failed' ? 'bad' : `s${place + 1}`;
}

/** At most this many of the times, with the values there, and what happened since the time before. */
function thinned({ times, series, show, marks = [] }: ChartOptions, most: number) {
  const each = Math.ceil(times.length / most);
  return times.flatMap((at, i) => {
    if ((times.length - 1 - i) % each !== 0) return [];
    const since = times[i - each] ?? at - ((times[1] ?? at) - (times[0] ?? at));
    const values = series.map((one) => (one.values[i] == null ? null : show(one.values[i])));
    const also = marks.filter((mark) => mark.at > since && mark.at <= at).map(({ words }) => words);
    return [{ at, since, values, also }];
  });
}

/** Invisible areas, each of a few steps, with a title that browsers show while the pointer is over them. */
function areas(options: ChartOptions, x: (at: number) => number): Html[] {
  return thinned(options, AREAS).map(({ at, since, values, also }) => {
    const lines = options.series.map(({ name }, i) => `${name} ${values[i] ?? 'unknown'}`);
    return html`<rect x="${x(since)}" width="${round(x(at) - x(since))}" height="${HEIGHT}">
      <title>${[`${clockTime(at)} UTC`, ...lines, ...also].join('\n')}</title>
    </rect>`;
  });
}

/** The chart as a table of at most ROWS rows, so that it is short enough for a screen reader. */
function figuresOf(options: ChartOptions): Html {
  const { title, series, marks = [] } = options;
  const also = marks.length > 0 ? ['what happened'] : [];
  const rows = thinned(options, ROWS).map((one) => {
    return [clockTime(one.at), ...one.values, ...also.map(() => one.also.join(', '))];
  });
  return table(title, ['at, UTC', ...series.map(({ name }) => `#${name}`), ...also], rows, 'no figures');
}

/** Splits a series where its values are unknown. Each result holds the indexes of one unbroken line. */
function stretches(values: (number | null)[]): number[][] {
  const found: number[][] = [];
  for (const [at, value] of values.entries()) {
    if (value === null) continue;
    const open = found.at(-1);
    if (open?.at(-1) === at - 1) open.push(at);
    else found.push([at]);
  }
  return found;
}

/** At most TICKS round times within the range. */
function ticks(from: number, to: number): number[] {
  const step = 60_000 * (TICK_MINUTES.find((minutes) => (to - from) / (60_000 * minutes) <= TICKS) ?? 10_080);
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, n) => first + n * step);
}

/** The first and the last time stay within the chart. */
function anchorOf(x: number): string {
  return x < WIDTH * 0.06 ? 'start' : x > WIDTH * 0.94 ? 'end' : 'middle';
}

function tickOf(at: number, width: number): string {
  return width > 2 * DAY_MS ? clockTime(at).slice(0, 5) : clockTime(at).slice(6);
}

/** Rounds up to 1, 2, 5 or 10 times a power of ten. */
function niceTop(most: number): number {
  if (most <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((step) => most <= step * power) ?? 10) * power;
}

function round(n: number): number {
  return Math.round(n * 10) / 10;
}

function clockTime(at: number): string {
  return (iso(at) ?? '').slice(5, 16).replace('T', ' ');
}
