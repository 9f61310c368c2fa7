// Turns the SQL of the roles into PostgreSQL's: numbered parameters, and tables in the schema of the kit.

/** Quoted text, a comment, a parameter, or a table after a word that tables follow. */
const TOKEN =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\+?\?|\+?@\w+|\b(?:from|join|into|update|table)\s+\w+/gi;

export interface Translated {
  text: string;
  /** The name of the value of each parameter. Null: values are given in order. */
  names: string[] | null;
}

/** `tables`: names that stand in the schema. Undefined: the statement is a handler's, and its tables stay as they are. */
export function translate(sql: string, schema: string, tables?: ReadonlySet<string>): Translated {
  const names: string[] = [];
  let count = 0;
  const text = sql.replace(TOKEN, (token) => {
    if (token.endsWith('?') && token.length <= 2) return `$${++count}`;
    const name = /^\+?@(\w+)$/.exec(token)?.[1];
    if (name !== undefined) {
      const at = names.indexOf(name);
      return `$${at < 0 ? names.push(name) : at + 1}`;
    }
    const [word = '', table = ''] = /^[a-z]/i.test(token) ? token.split(/\s+/) : [];
    return tables?.has(table) ? `${word} ${schema}.${table}` : token;
  });
  return { text, names: names.length > 0 ? names : null };
}
