// Results as text for a terminal: a list of rows as a table, anything else line by line.

export function table(result: unknown): string {
  if (!Array.isArray(result)) return lines(result);
  if (result.length === 0) return 'nothing';
  const rows = result as Record<string, unknown>[];
  const names = Object.keys(rows[0] ?? {}).filter((name) =>
    rows.some((row) => row[name] !== null && row[name] !== false),
  );
  const cells = [names, ...rows.map((row) => names.map((name) => cell(row[name])))];
  const widths = names.map((_, n) => Math.max(...cells.map((row) => row[n]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((text, n) => text.padEnd(widths[n] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function lines(result: unknown): string {
  if (typeof result !== 'object' || result === null) return cell(result);
  return Object.entries(result)
    .map(([name, value]) => (name === 'words' ? cell(value) : `${name}: ${cell(value)}`))
    .join('\n');
}

/** What strangers wrote stays on its line. */
function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = Array.isArray(value) ? value.join(', ') : typeof value === 'string' ? value : JSON.stringify(value);
  return text.replaceAll(/\s+/g, ' ');
}

/** Characters that could control a terminal or reorder a line, but not the joiners of emoji. */
const UNSEEN = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Text from outside, safe on a terminal. JSON stays the same JSON. */
export function shown(text: string): string {
  const hidden = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replaceAll(UNSEEN, (sign) => sign.split('').map(hidden).join(''));
}
