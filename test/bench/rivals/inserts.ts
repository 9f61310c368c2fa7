// node:http, and one INSERT into PostgreSQL for each delivery, committed and synced before the answer.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Pool } from 'pg';
import { isSigned, read } from './read.ts';

const INSERT = 'insert into events values ($1, $2) on conflict (id) do nothing';
const pool = new Pool({ connectionString: process.env['DATABASE'] ?? '' });
await pool.query('create table events (id text primary key, body bytea not null)');
createServer((request, response) => void answer(request, response)).listen(Number(process.env['PORT']), '127.0.0.1');

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await read(request);
  const signed = isSigned(request, body);
  if (signed) {
    const { id } = JSON.parse(body.toString()) as { id: string };
    await pool.query({ name: 'insert', text: INSERT, values: [id, body] });
  }
  response.writeHead(signed ? 204 : 401).end();
}
