// GET /events over real HTTP, written from the contract alone (3.4, 4.4, 6.1). It serves one connection at a time. It
// can expire cursors, leave events out, and break off in the middle of an event.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { API_KEY, failure, type Answer, type Item } from './replay-server.ts';

/** The answer to the next opening, instead of the missed events. A string: a `refresh` with this reason. */
export type Meeting = string | Answer;

export interface StreamServer {
  /** For API_BASE_URL; ends in /v1. */
  url: string;
  /** The query and the Last-Event-ID of each opening. */
  opens: { query: string; after: string | undefined }[];
  meet: (...meetings: Meeting[]) => void;
  publish: (item: Item) => void;
  /** Leaves out events from now on. */
  lag: () => void;
  /** Sends new events again, after a `refresh` if some were left out. */
  goOn: (reason: string) => void;
  write: (text: string | Buffer) => void;
  /** `end` sends the end event. `cut` breaks off in the middle of an event. */
  end: (how: 'end' | 'cut') => void;
  isOpen: () => boolean;
  close: () => Promise<void>;
}

export async function startStreamServer(onSent: (cursor: string) => void = () => {}): Promise<StreamServer> {
  const history: Item[] = [];
  const meetings: Meeting[] = [];
  const opens: StreamServer['opens'] = [];
  let line: ServerResponse | undefined;
  let lagging = false;

  function tell({ cursor, json_payload }: Item): void {
    onSent(cursor);
    line?.write(`id: ${cursor}\nevent: domain\ndata: ${json_payload}\n\n`);
  }

  function refresh(reason: string): void {
    line?.write(`event: refresh\ndata: ${JSON.stringify({ reason })}\n\n`);
  }

  const server = createServer((request, response) => {
    const { pathname, search: query } = new URL(request.url ?? '', 'http://localhost');
    const after = request.headers['last-event-id'] as string | undefined;
    opens.push({ query, after });
    const meeting = meetings.shift();
    const refusal =
      pathname !== '/v1/events'
        ? failure(404, 'NOT_FOUND')
        : request.headers.authorization !== `Bearer ${API_KEY}`
          ? failure(401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED')
          : meeting;
    if (typeof refusal === 'object') {
      response.writeHead(refusal.status ?? 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(refusal.body));
      return;
    }
    line?.destroy();
    line = response;
    lagging = false;
    response.once('close', () => {
      if (line === response) line = undefined;
    });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    if (typeof meeting === 'string') refresh(meeting);
    else if (after !== undefined) history.filter(({ cursor }) => BigInt(cursor) > BigInt(after)).forEach(tell);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    opens,
    meet: (...more) => void meetings.push(...more),
    publish(item) {
      history.push(item);
      if (!lagging) tell(item);
    },
    lag: () => void (lagging = true),
    goOn(reason) {
      if (lagging) refresh(reason);
      lagging = false;
    },
    write: (text) => void line?.write(text),
    end(how) {
      const ending = line;
      line = undefined;
      if (how === 'end') ending?.end('event: end\ndata: {}\n\n');
      else ending?.write('id: 99999999\nevent: domain\ndata: {"Mess', () => ending.destroy());
      lagging = false;
    },
    isOpen: () => line !== undefined,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
