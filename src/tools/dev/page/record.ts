// What handlers have said about each event in this session: attempts, their errors, and log lines. They come from the
// kit's log, because the store keeps no log lines.

/** One line of the kit's log about an event. */
export interface Said {
  /** ISO 8601, UTC. */
  at: string;
  handler: string;
  /** `done`, `skipped`, `retry` or `dead` at the end of an attempt. Null: a log line of the handler. */
  verdict: string | null;
  text: string;
  /** `file:line` of an error. */
  place: string | null;
  ms: number | null;
}

/** The most events, and the most lines of one event, that are kept. */
const EVENTS = 500;
const LINES = 200;
const COMMON = new Set(['level', 'time', 'process', 'handler', 'key', 'msg']);

export type EventLog = ReturnType<typeof createRecord>;

export function createRecord(folder: string) {
  const byKey = new Map<string, Said[]>();

  return {
    take(line: { [field: string]: unknown }): void {
      const { key, handler } = line;
      if (typeof key !== 'string' || typeof handler !== 'string') return;
      const lines = byKey.get(key) ?? [];
      byKey.delete(key);
      byKey.set(key, lines);
      if (lines.length < LINES) lines.push(saidOf(line, handler, folder));
      const [oldest] = byKey.keys();
      if (byKey.size > EVENTS && oldest !== undefined) byKey.delete(oldest);
    },
    of: (key: string): Said[] => byKey.get(key) ?? [],
    clear: () => byKey.clear(),
  };
}

function saidOf(line: { [field: string]: unknown }, handler: string, folder: string): Said {
  const { time, msg, verdict, why, error, at, ms } = line;
  const said = { at: textOf(time), handler, place: typeof at === 'string' ? at.replace(`${folder}/`, '') : null };
  if (typeof verdict === 'string')
    return { ...said, verdict, text: withoutPlace(textOf(why ?? error ?? '')), ms: typeof ms === 'number' ? ms : null };
  const fields = Object.entries(line).filter(([name]) => !COMMON.has(name));
  const more = fields.length > 0 ? ` ${JSON.stringify(Object.fromEntries(fields))}` : '';
  return { ...said, verdict: null, text: `${textOf(msg)}${more}`, ms: null };
}

/** An error's text ends with its place, which is shown apart. */
export function withoutPlace(text: string): string {
  return text.replace(/ \(\S+:\d+\)$/, '');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}
