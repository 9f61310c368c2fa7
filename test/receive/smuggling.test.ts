// Request smuggling: two readers of one connection may disagree about where a request ends. Each case carries a whole
// signed delivery inside or behind a doubtful request. No doubtful request is accepted, and no hidden delivery is.
import { describe, expect, test } from 'vitest';
import { bodyOf, head, kept, openLine, pairs, rows, startReceiver, statuses, until } from './harness.ts';

const body = bodyOf({ cursor: '1' });
const hiddenBody = bodyOf({ cursor: '2' });
/** A whole signed delivery, which the service sent to somebody else or earlier. */
const hidden = head(pairs(hiddenBody)) + hiddenBody.toString();

const hex = (text: string): string => Buffer.byteLength(text).toString(16);
const chunk = (text: string, extension = ''): string => `${hex(text)}${extension}\r\n${text}\r\n`;
const whole = (extension = '', trailers = ''): string => `${chunk(body.toString(), extension)}0\r\n${trailers}\r\n`;
const length = (value: string): [string, string] => ['Content-Length', value];
const encoding = (value: string): [string, string] => ['Transfer-Encoding', value];
const CHUNKED = encoding('chunked');
/** The head of a delivery that is signed, but has no length yet. */
const unsized = pairs(body, false);
const bytes = String(body.length);

/** Writes the bytes. Resolves to the statuses of all answers, when the receiver has closed the connection. */
async function statusesOf(port: number, text: string): Promise<number[]> {
  const line = await openLine(port);
  line.write(text);
  return statuses(await line.closed());
}

describe('a request whose end is in doubt', () => {
  test.each<[string, string]>([
    ['I63: Content-Length, then Transfer-Encoding', head([...unsized, length(bytes), CHUNKED]) + whole()],
    ['I63: Transfer-Encoding, then Content-Length', head([...unsized, CHUNKED, length(bytes)]) + whole()],
    ['I63: Content-Length of the chunks alone', head([...unsized, length(String(whole().length)), CHUNKED]) + whole()],
    ['I63: Content-Length of 0 before chunks', head([...unsized, length('0'), CHUNKED]) + whole()],
    ['I63: two lengths, the second is 0', head([...unsized, length(bytes), length('0')]) + body],
    ['I63: two lengths, the first is 0', head([...unsized, length('0'), length(bytes)]) + body],
    ['I63: two lengths in one line', head([...unsized, length(`${bytes}, ${bytes}`)]) + body],
    ['I63: a length with a sign', head([...unsized, length(`+${bytes}`)]) + body],
    ['I63: a length below 0', head([...unsized, length('-1')]) + body],
    ['I63: a length in hex', head([...unsized, length(`0x${body.length.toString(16)}`)]) + body],
    ['I63: a length with a blank inside', head([...unsized, length(`${bytes} 0`)]) + body],
    ['I63: a length above 64 bits', head([...unsized, length('18446744073709551617')]) + body],
    ['I63: a length on a folded line', head([...unsized, 'Content-Length:\r\n ' + bytes]) + body],
    ['I63: a folded signature', head([...pairs(body), 'X-Svc-Extra: a\r\n\tb']) + body],
    ['I63: chunked is not the last encoding', head([...unsized, encoding('chunked, identity')]) + whole()],
    ['I63: chunked on two lines', head([...unsized, CHUNKED, CHUNKED]) + whole()],
    ['I63: chunked with a letter before it', head([...unsized, encoding('xchunked')]) + whole()],
    ['I63: chunked with a vertical tab', head([...unsized, encoding('\u000bchunked')]) + whole()],
    [
      'I63: Transfer-Encoding with a blank before the colon',
      head([...unsized, 'Transfer-Encoding : chunked']) + whole(),
    ],
    ['I63: a bare newline ends a header line', head([...unsized, `X-A: b\nContent-Length: ${bytes}`]) + body],
    ['I63: a bare carriage return in a header', head([...unsized, `X-A: b\rContent-Length: ${bytes}`]) + body],
    ['I63: a bare newline ends the head', head(pairs(body)).replace(/\r\n\r\n$/, '\r\n\n') + body],
    ['I63: a chunk size with a sign', head([...unsized, CHUNKED]) + whole().replace(/^/, '+')],
    ['I63: a chunk size with 0x', head([...unsized, CHUNKED]) + whole().replace(/^/, '0x')],
    ['I63: a chunk size above 64 bits', head([...unsized, CHUNKED]) + whole().replace(/^/, '10000000000000000')],
    ['I63: a chunk size that a bare newline ends', head([...unsized, CHUNKED]) + whole().replace('\r\n', '\n')],
    ['I63: an extension with a bare newline', head([...unsized, CHUNKED]) + whole(';a\nb')],
    ['I63: a trailer that names a length', head([...unsized, CHUNKED]) + whole('', 'Content-Length: 1\r\n')],
    ['I63: a chunk that is longer than its size', head([...unsized, CHUNKED]) + whole().replace('}\r\n', '}}\r\n')],
  ])('%s: nothing is kept, and what follows is not read', async (_, request) => {
    const receiver = await startReceiver();
    const answers = await statusesOf(receiver.port, request + hidden);
    expect(answers).not.toContain(204);
    expect(answers.length).toBeLessThanOrEqual(1);
    expect(rows(receiver)).toBe(0);
  });
});

describe('a request that is odd, but whose end is clear', () => {
  test.each<[string, string]>([
    ['chunk extensions', head([...unsized, CHUNKED]) + whole(';name=value;other="a b"')],
    ['a trailer that names another signature', head([...unsized, CHUNKED]) + whole('', 'X-Svc-Signature: v1=00\r\n')],
    ['Chunked in capitals', head([...unsized, encoding('CHUNKED')]) + whole()],
    [
      'a chunk for each byte',
      `${head([...unsized, CHUNKED])}${body.toString('latin1').replace(/./gs, (one) => chunk(one))}0\r\n\r\n`,
    ],
  ])('%s: one event, and the delivery behind it is another', async (_, request) => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(request + hidden);
    await until(() => statuses(line.text()).length === 2);
    expect(statuses(line.text())).toEqual([204, 204]);
    expect(kept(receiver).events.map((event) => event.body)).toEqual([body, hiddenBody]);
    expect(kept(receiver).quarantine).toEqual([]);
  });
});

describe('a delivery in the bytes of a refused request', () => {
  test.each<[string, string, number]>([
    ['without a signature', head([length(String(hidden.length))]) + hidden, 401],
    ['without a signature, in chunks', `${head([CHUNKED])}${chunk(hidden)}0\r\n\r\n`, 401],
    ['to another path', head([length(String(hidden.length))], 'POST /elsewhere HTTP/1.1') + hidden, 404],
    ['by another method', head([length(String(hidden.length))], 'PUT /webhooks HTTP/1.1') + hidden, 405],
    ['with the signature of another body', head([...unsized, length(String(hidden.length))]) + hidden, 401],
  ])('%s: is no request of its own', async (_, request, status) => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(request);
    line.socket.end();
    expect(statuses(await line.closed())).toEqual([status]);
    expect(rows(receiver)).toBe(0);
  });

  // The refusal closes the connection, so nothing behind it can be answered (RFC 9112, section 9.6).
  test.each([1, 2, 3])('that is pipelined behind it, %i times, is neither answered nor kept', async (times) => {
    const receiver = await startReceiver();
    expect(await statusesOf(receiver.port, `${head([length('2')])}{}${hidden.repeat(times)}`)).toEqual([401]);
    expect(rows(receiver)).toBe(0);
    expect(receiver.answered).toEqual([]);
  });

  test('in a delivery that is signed, it is the content of that delivery', async () => {
    const receiver = await startReceiver();
    const carrier = bodyOf({ cursor: '3', data: { MessageReceived: { body: hidden } } });
    const line = await openLine(receiver.port);
    line.write(head(pairs(carrier)) + carrier.toString());
    await until(() => statuses(line.text()).length === 1);
    line.socket.end();
    expect(statuses(await line.closed())).toEqual([204]);
    expect(kept(receiver).events.map((event) => event.body)).toEqual([carrier]);
  });
});
