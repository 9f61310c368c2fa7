// A usual setup: express, standardwebhooks, and one synced row for each delivery.
import express from 'express';
import { Webhook } from 'standardwebhooks';
import { createRows } from './table.ts';

const webhook = new Webhook(process.env['WEBHOOK_SECRET'] ?? '');
const rows = createRows();
const app = express();
app.post('/webhooks', express.raw({ type: '*/*' }), (request, response) => {
  const body = request.body as unknown as Buffer;
  try {
    rows.add(webhook.verify(body, request.headers as Record<string, string>) as { id: string }, body);
  } catch {
    response.sendStatus(401);
    return;
  }
  response.sendStatus(204);
});
app.listen(Number(process.env['PORT']), '127.0.0.1');
