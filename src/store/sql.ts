// SQL that is written once for both stores. Values have names, `@name` in the text. Integers that a number cannot hold are
// bigints, so a cursor is read by `cast(cursor as text)` and compared with `cast(@cursor as bigint)`.

export type Values = Record<string, unknown>;

export interface Sql {
  readonly dialect: 'sqlite' | 'postgres';
  all<Row>(text: string, values?: Values): Promise<Row[]>;
  get<Row>(text: string, values?: Values): Promise<Row | undefined>;
  /** Resolves with the number of rows that changed. */
  run(text: string, values?: Values): Promise<number>;
}

export interface Database extends Sql {
  /** One transaction, durable when it resolves. `work` is called again if another transaction was in its way. */
  write<Result>(work: (tx: Sql) => Promise<Result>): Promise<Result>;
  /** One snapshot, which nothing is written in. */
  read<Result>(work: (tx: Sql) => Promise<Result>): Promise<Result>;
}
