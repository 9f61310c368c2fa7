// The statements of the contract as rows of a table, from the JSON report of a test run.

export interface Statement {
  section: string;
  statement: string;
  /** The file of its test, relative to the repository. */
  test: string;
  holds: boolean;
}

/** What is used of the report of vitest's JSON reporter. */
export interface Report {
  testResults: {
    /** The absolute path of the file. */
    name: string;
    assertionResults: { title: string; status: string; meta: { holds?: boolean } }[];
  }[];
}

/** A title that begins with sections of the contract. */
const TITLE = /^(\d+(?:\.\d+)*(?:, \d+(?:\.\d+)*)*): (.+)$/s;
const WIDTH = 160;
const HEAD = ['section', 'statement', 'test', 'holds'];

/** By section. Throws if no test has a statement as its title, because then nothing was proved. */
export function statementsOf({ testResults }: Report, root: string): Statement[] {
  const statements = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.flatMap(({ title, status, meta }) => {
      const [, section, statement] = TITLE.exec(title) ?? [];
      // A test of `holds.not` passes while its statement does not hold.
      const holds = status === (meta.holds === false ? 'failed' : 'passed');
      return section && statement ? [{ section, statement, test: name.replace(`${root}/`, ''), holds }] : [];
    }),
  );
  if (statements.length === 0) throw new Error('no test has a statement of the contract as its title');
  return statements.toSorted((a, b) => a.section.localeCompare(b.section, 'en', { numeric: true }));
}

/** Head and rows for `printTable`. Long statements are cut, so that a line has at most 160 columns. */
export function tableOf(statements: Statement[]): { head: string[]; rows: string[][] } {
  const rows = statements.map(({ section, statement, test, holds }) => [
    section,
    statement,
    test,
    holds ? 'yes' : 'no',
  ]);
  const widest = (column: number): number => Math.max(...[HEAD, ...rows].map((row) => row[column]?.length ?? 0));
  const most = WIDTH - widest(0) - widest(2) - widest(3) - 2 * (HEAD.length - 1);
  const cut = (text: string): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  return { head: HEAD, rows: rows.map((row) => row.map((cell, column) => (column === 1 ? cut(cell) : cell))) };
}
