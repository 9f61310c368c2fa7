// A schema of its own on a PostgreSQL server, for the demo and for tests of handlers. It is dropped at the end.

export interface OwnSchema {
  /** The address of the store in this schema. */
  url: string;
  drop(): Promise<void>;
}

export function ownSchema(server: string, schema: string): OwnSchema {
  return { url: inSchema(server, schema), drop: () => dropSchemas(server, (name) => name === schema) };
}

/** Tables of handlers are in the same schema as the kit's, so that they are dropped with it. */
export function inSchema(server: string, schema: string): string {
  const url = new URL(server);
  url.searchParams.set('schema', schema);
  url.searchParams.set('options', `-c search_path=${schema}`);
  return url.href;
}

/** Drops the schemas with these names. Throws if there is no server. */
export async function dropSchemas(server: string, chosen: (name: string) => boolean): Promise<void> {
  const url = new URL(server);
  url.searchParams.delete('schema');
  const { Client } = await import('pg');
  const client = new Client({ connectionString: url.href, connectionTimeoutMillis: 3_000 });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>('select nspname as name from pg_namespace');
    for (const { name } of rows) if (chosen(name)) await client.query(`drop schema if exists "${name}" cascade`);
  } finally {
    await client.end();
  }
}
