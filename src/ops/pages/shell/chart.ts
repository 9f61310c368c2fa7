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
}

const WIDTH = 380;
const HEIGHT = 128;
const PLOT = { left: 52, right: 376, top: 8, bottom: 108 };
const ROWS = 12;

export function chart({ title, from, to, times, series, show, logUpTo }: ChartOptions): Html {
  if (times.length === 0) {
    return html`<figure>
      <figcaption><b>${title}</b></figcaption>
      <p class="empty">The chart appears after some minutes.</p>
    </figure>`;
  }
  const top = logUpTo ?? niceTop(Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0))));
  const share = (value: number): number =>
    logUpTo === undefined ? value / top : Math.log(Math.max(1, value)) / Math.log(top);
  const x = (at: number): number => round(PLOT.left + ((at - from) / (to - from)) * (PLOT.right - PLOT.left));
  const y = (value: number): number => round(PLOT.bottom - Math.min(1, share(value)) * (PLOT.bottom - PLOT.top));
  const marks = logUpTo === undefined ? [0, top / 2, top] : [1, 10, 100, 1_000, 10_000].filter((mark) => mark <= top);
  const line = (i: number, stretch: number[], values: (number | null)[]): Html => {
    const points = stretch.map((at) => [x(times[at] ?? 0), y(values[at] ?? 0)] as const);
    // A line with a single point would be invisible, so it gets a second one.
    const [alone] = points.length === 1 ? points : [];
    if (alone) points.push([alone[0] - 3, alone[1]]);
    return html`<polyline class="s${i + 1}" points="${points.join(' ')}" />`;
  };
  const id = title.toLowerCase().replaceAll(/[^a-z]+/g, '-');
  const words = series.map(({ name, sum }) => `${name} ${sum}`).join(', ');
  return html`<figure>
    <figcaption>
      <b>${title}</b
      >${series.map(({ name, sum }, i) => html`<span><span class="s${i + 1}">●</span> ${name} ${sum}</span>`)}
    </figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}-title ${id}-words">
      <title id="${id}-title">${title}</title>
      <desc id="${id}-words">
        From ${clockTime(from)} to ${clockTime(to)}: ${words}. The table below has the figures.
      </desc>
      ${marks.map(
        (mark) =>
          html`<line class="grid" x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(mark)}" y2="${y(mark)}" /><text
              x="${PLOT.left - 6}"
              y="${y(mark) + 3}"
              text-anchor="end"
              >${show(mark)}</text
            >`,
      )}
      <text x="${PLOT.left}" y="${HEIGHT - 4}">${clockTime(from)}</text>
      <text x="${PLOT.right}" y="${HEIGHT - 4}" text-anchor="end">${clockTime(to)}</text>
      ${series.map(({ values }, i) => stretches(values).map((stretch) => line(i, stretch, values)))}
    </svg>
    <details>
      <summary>${title} as a table</summary>
      ${figuresOf(title, times, series, show)}
    </details>
  </figure>`;
}

/** The chart as a table of at most ROWS rows, so that it is short enough for a screen reader. */
function figuresOf(title: string, times: number[], series: Series[], show: (value: number) => string): Html {
  const each = Math.ceil(times.length / ROWS);
  const rows = times.flatMap((at, i) => {
    if ((times.length - 1 - i) % each !== 0) return [];
    const cells = series.map(({ values }) => values[i] ?? null);
    return [[clockTime(at), ...cells.map((value) => (value === null ? null : show(value)))]];
  });
  return table(title, ['at, UTC', ...series.map(({ name }) => `#${name}`)], rows, 'no figures');
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
