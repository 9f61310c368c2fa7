// Reads answers of the service within limits of size: as an object, as bytes or as events. The parser of event streams
// is a library, because line ends, fields and cut-off events are easy to get wrong. Every function throws
// ServiceError.
import { isUtf8 } from 'node:buffer';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { orUndefined } from '../base/errors.ts';
import { failureOf, ServiceError, unreadable } from './errors.ts';

const MIB = 1024 * 1024;
/** The largest answer that is read, in bytes: the limit for media (contract 8). Other answers are smaller. */
const MOST_BYTES = 64 * MIB;
/** The longest event of a stream, in bytes. */
const LONGEST = 16 * MIB;

/** Reads an answer of at most `mostBytes`. `read` returns undefined if the text is not a JSON object. */
export interface Reader {
  mostBytes: number;
  read: (text: Buffer) => Record<string, unknown> | undefined;
}

export async function* bytesOf(
  response: Response,
  what: string,
  signal?: AbortSignal,
  most = MOST_BYTES,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += (chunk as Uint8Array).length;
      if (bytes > most) throw unreadable(response, `${what} was answered with more than ${most} bytes`);
      yield chunk as Uint8Array;
    }
  } catch (cause) {
    throw failureOf(what, cause, signal);
  }
}

export async function readText(response: Response, what: string): Promise<string> {
  return (await readBytes(response, what)).toString('utf8');
}

async function readBytes(response: Response, what: string, most?: number): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(bytesOf(response, what, undefined, most)));
}

export async function readObject(response: Response, what: string, reader?: Reader): Promise<Record<string, unknown>> {
  if (!reader) return objectOf(response, what, await readText(response, what));
  const bytes = await readBytes(response, what, reader.mostBytes);
  return reader.read(bytes) ?? refuse(response, what, bytes.length === 0);
}

export function objectOf(response: Response, what: string, text: string): Record<string, unknown> {
  const value = orUndefined(() => JSON.parse(text) as unknown);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  return refuse(response, what, text === '');
}

function refuse(response: Response, what: string, empty: boolean): never {
  const got = empty ? 'nothing' : (response.headers.get('content-type')?.slice(0, 50) ?? 'no content-type');
  throw unreadable(response, `${what} was answered with something other than a JSON object (${got})`);
}

/** The body as a stream. Cancelling it closes the connection, even before the first read. */
export function streamOf(response: Response, what: string, signal?: AbortSignal): ReadableStream<Uint8Array> {
  const bytes = bytesOf(response, what, signal);
  let begun = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        begun = true;
        const { done, value } = await bytes.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await (begun ? bytes.return(undefined) : response.body?.cancel());
      },
    },
    { highWaterMark: 0 },
  );
}

/** An event of a stream. `bytes`: its data as received, if they are not UTF-8; `data` then has U+FFFD in their place. */
export interface Message extends EventSourceMessage {
  bytes?: Buffer;
}

/** The events of an event stream. Events that arrive in one chunk are yielded together. */
export async function* messagesOf(
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  what: string,
): AsyncGenerator<Message[], void, void> {
  const messages: Message[] = [];
  const parser = createParser({
    maxBufferSize: LONGEST,
    onEvent: (message) => messages.push(decoded(message)),
    onError({ type }) {
      if (type !== 'max-buffer-size-exceeded') return;
      throw new ServiceError({ code: 'unreadable', message: `${what}: an event has more than ${LONGEST} bytes` });
    },
  });
  for await (const chunk of bytes) {
    // One character for each byte, so that `decoded` sees which bytes are not UTF-8.
    parser.feed(Buffer.from(chunk).toString('latin1'));
    yield messages.splice(0);
  }
}

function decoded(message: EventSourceMessage): Message {
  const bytes = Buffer.from(message.data, 'latin1');
  const data = bytes.toString('utf8');
  return isUtf8(bytes) ? { ...message, data } : { ...message, data, bytes };
}
