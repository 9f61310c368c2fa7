// node:http, and one row for each delivery, committed and synced before the answer.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRows } from './table.ts';
import { isSigned, read } from './read.ts';

const rows = createRows();
createServer((request, response) => void answer(request, response)).listen(Number(process.env['PORT']), '127.0.0.1');

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await read(request);
  const signed = isSigned(request, body);
  if (signed) rows.add(JSON.parse(body.toString()) as { id: string }, body);
  response.writeHead(signed ? 204 : 401).end();
}
