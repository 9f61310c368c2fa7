// Compares the service with what the kit assumes where the contract leaves something open (src/wire/README.md). Makes
// five calls, which only read.
import type { Config } from '../../config.ts';
import { PageError, readPage, type Page } from '../../reconcile/page.ts';
import { ServiceError } from '../../service/errors.ts';
import type { Fetch } from '../../service/exchange.ts';
import { readStream, type StreamNews } from '../../service/stream.ts';
import { isBehind, parseCursor, type Cursor } from '../../wire/cursor.ts';
import { REQUEST_ID } from '../../wire/headers.ts';
import { ok, skipped, warning, type Check, type Finding } from './check.ts';
import { call, NOT_SET, PATIENCE_MS } from './service.ts';

/** The highest cursor. Probably no event has it. */
const UNKNOWN = parseCursor('9223372036854775807') ?? null;
const odd = (words: string): Finding =>
  warning(words, 'src/wire/README.md says what the kit assumes, and where to change it');

export const contract: Check = {
  name: 'contract',
  needs: ['API_BASE_URL', 'API_KEY'],
  after: ['api key', 'replay'],
  async run({ config }) {
    if (!config.API_KEY) return skipped(NOT_SET);
    const first = await read(config, null, 2);
    const [from, next] = first instanceof Error ? [null, null] : [first.first, first.proved];
    // Two events were shown, so one of them comes after the other.
    const after = from === next ? null : from;
    const findings = [judge(first, () => ok(from ? 'replay is in the order of cursors' : 'replay shows no event yet'))];
    if (after !== null) findings.push(judge(await read(config, after, 1), (page) => continues(page, next)));
    findings.push(await unknownCursor(config), await stream(config, after), await unknownOperation(config));
    return findings;
  },
};

async function read(config: Config, after: Cursor | null, limit: number): Promise<Page | Error> {
  const answer = await call(config, 'ReplayEvents', { ...(after && { after_cursor: after }), limit });
  try {
    return answer instanceof ServiceError ? answer : readPage(answer, after, ['*'], { limit });
  } catch (error) {
    if (error instanceof PageError) return error;
    throw error;
  }
}

function judge(page: Page | Error, usual: (page: Page) => Finding): Finding {
  if (page instanceof Error) return failed(page);
  return page.oddities.length > 0 ? odd(`a page of replay has ${page.oddities.join(', ')}`) : usual(page);
}

/** An outage or a limit says nothing about the contract. */
function failed(error: Error): Finding {
  return error instanceof ServiceError && error.retryable ? skipped(error.message) : odd(error.message);
}

function continues({ first }: Page, next: Cursor | null): Finding {
  return first === next
    ? ok('replay continues right after after_cursor, and keeps to limit')
    : odd(`replay shows ${first ?? 'nothing'} where ${next} comes next`);
}

async function unknownCursor(config: Config): Promise<Finding> {
  const page = await read(config, UNKNOWN, 1);
  if (page instanceof ServiceError && page.reason === 'EVENT_CURSOR_INVALID')
    return ok('an unknown cursor is refused (EVENT_CURSOR_INVALID)');
  return judge(page, ({ reset }) => ok(`an unknown cursor gets ${reset ? 'reset_required' : 'an empty page'}`));
}

/** Without a cursor, the stream is only opened. */
async function stream({ API_BASE_URL: baseUrl = '', API_KEY: apiKey = '' }: Config, after: Cursor | null) {
  const seen: Finding[] = [];
  const stop = new AbortController();
  function onNews(news: StreamNews): void {
    if (news.kind === 'open' && after === null) seen.push(ok('GET /events opens an event stream'));
    if (news.kind === 'refresh') seen.push(ok(`GET /events answers an old cursor with refresh (${news.reason})`));
    if (news.kind === 'lost' || news.kind === 'unreadable') seen.push(odd(`GET /events: ${news.reason}`));
    if (seen.length > 0) stop.abort();
  }
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(PATIENCE_MS)]);
  try {
    for await (const items of readStream({ baseUrl, apiKey, after, signal, onNews })) {
      const order = [after, ...items.map(({ cursor }) => cursor)];
      const ascends = order.every((cursor, i) => i === 0 || isBehind(order[i - 1] ?? null, cursor));
      return ascends ? ok('GET /events resumes after a cursor, in order') : odd('GET /events: its ids do not ascend');
    }
  } catch (error) {
    if (error instanceof ServiceError) return failed(error);
    throw error;
  }
  return seen[0] ?? odd(`GET /events resends nothing after cursor ${after} within ${PATIENCE_MS / 1_000} s`);
}

async function unknownOperation(config: Config): Promise<Finding> {
  const ids: (string | null)[] = [];
  const fetch: Fetch = async (url, init) => {
    const response = await globalThis.fetch(url, init);
    ids.push(response.headers.get(REQUEST_ID));
    return response;
  };
  const error = await call(config, 'KitUnknownOperation', {}, fetch);
  if (!(error instanceof ServiceError)) return odd('an unknown operation is answered as if it existed');
  if (error.retryable) return failed(error);
  const words = `an unknown operation: ${error.status} (${error.reason ?? 'no reason'}), ${REQUEST_ID} ${ids[0] ? '' : 'not '}sent`;
  return error.status === 404 && error.reason === 'RPC_METHOD_NOT_FOUND' && ids[0] ? ok(words) : odd(words);
}
