// Runs the queries of blocking.ts in a thread of its own, one after another, on one connection.
import { workerData, type MessagePort } from 'node:worker_threads';
import { Client } from 'pg';

export interface Asked {
  schema: string;
  text: string;
  values: unknown[] | undefined;
}

export type Answered = { rows: unknown[] } | { error: string };

const { port, done, url } = workerData as { port: MessagePort; done: Int32Array; url: string };
let client: Client | undefined;

async function connect(): Promise<Client> {
  const opened = new Client({ connectionString: url });
  opened.setTypeParser(20, Number);
  opened.on('error', () => (client = undefined));
  await opened.connect();
  return (client = opened);
}

async function answerTo({ schema, text, values }: Asked): Promise<Answered> {
  try {
    const opened = client ?? (await connect());
    await opened.query(`set search_path = ${schema}`);
    const result = await opened.query(values ? { text, values } : text);
    // Several statements have several results.
    return { rows: Array.isArray(result) ? [] : result.rows };
  } catch (error) {
    return { error: String(error) };
  }
}

async function serve(asked: Asked): Promise<void> {
  port.postMessage(await answerTo(asked));
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
}

port.on('message', (asked: Asked) => void serve(asked));
