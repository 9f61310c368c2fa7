// Reads answers of the service within limits of size: as an object, as bytes or as events. Every function throws
// ServiceError.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { orUndefined } from '../base/errors.ts';
import { failureOf, ServiceError, unreadable } from './errors.ts';

const MIB = 1024 * 1024;
/** The largest answer that is read, in bytes: the limit for media (contract 8). Other answers are smaller. */
const MOST_BYTES = 64 * MIB;
/** The longest event of a stream, in characters. */
const LONGEST = 16 * MIB;

export async function* bytesOf(response: Response, what: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += (chunk as Uint8Array).length;
      if (bytes > MOST_BYTES) throw unreadable(response, `${what} was answered with more than ${MOST_BYTES} bytes`);
      yield chunk as Uint8Array;
    }
  } catch (cause) {
    throw failureOf(what, cause, signal);
  }
}

export async function readText(response: Response, what: string): Promise<string> {
  return Buffer.concat(await Array.fromAsync(bytesOf(response, what))).toString('utf8');
}

export function objectOf(response: Response, what: string, text: string): Record<string, unknown> {
  const value = orUndefined(() => JSON.parse(text) as unknown);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  const got = text === '' ? 'nothing' : (response.headers.get('content-type')?.slice(0, 50) ?? 'no content-type');
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

/** The events of an event stream. */
export async function* messagesOf(
  bytes: AsyncIterable<Uint8Array>,
  what: string,
): AsyncGenerator<EventSourceMessage, void, void> {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({
    maxBufferSize: LONGEST,
    onEvent: (message) => messages.push(message),
    onError({ type }) {
      if (type !== 'max-buffer-size-exceeded') return;
      throw new ServiceError({ code: 'unreadable', message: `${what}: an event is longer than ${LONGEST}` });
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of bytes) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* messages.splice(0);
  }
}
