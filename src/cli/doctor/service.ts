// Checks of the service: the difference between the two clocks, the API key, and what the key may read.
import type { Config } from '../../config.ts';
import { ServiceError } from '../../service/errors.ts';
import type { Fetch } from '../../service/exchange.ts';
import type { Plain } from '../../service/operations.ts';
import { createService } from '../../service/service.ts';
import { replayPage } from '../../service/shapes.ts';
import { withStore } from '../lib/store.ts';
import { failureOf, isDns, isTls } from '../lib/post.ts';
import { fault, misconfigured, ok, skipped, unreachable, warning, type Check, type Finding } from './check.ts';

const WARN_SECONDS = 30;
export const PATIENCE_MS = 5_000;
export const NOT_SET = 'API_BASE_URL and API_KEY are not set: recovery is off';

export const clocks: Check = {
  name: 'clock',
  needs: ['API_BASE_URL', 'TIMESTAMP_TOLERANCE_SECONDS'],
  async run({ config: { API_BASE_URL, TIMESTAMP_TOLERANCE_SECONDS }, clock }) {
    if (!API_BASE_URL) return skipped('API_BASE_URL is not set: no other clock to compare with');
    const before = clock.now();
    const date = await dateAt(`${API_BASE_URL.replace(/\/+$/, '')}/`);
    if (typeof date === 'string') return skipped(`API_BASE_URL sends no time (${date})`);
    const off = Math.round(((before + clock.now()) / 2 - date) / 1000);
    const words = `this machine is ${Math.abs(off)} s ${off < 0 ? 'behind' : 'ahead of'} the service`;
    const remedy = 'set the clock by NTP: deliveries signed outside the tolerance are refused, and each counts';
    if (Math.abs(off) >= TIMESTAMP_TOLERANCE_SECONDS) return fault(words, remedy);
    return Math.abs(off) >= WARN_SECONDS ? warning(words, remedy) : ok(words);
  },
};

async function dateAt(url: string): Promise<number | string> {
  try {
    const response = await fetch(url, { redirect: 'manual', signal: AbortSignal.timeout(PATIENCE_MS) });
    await response.body?.cancel();
    const date = Date.parse(response.headers.get('date') ?? '');
    return Number.isNaN(date) ? 'no Date header' : date;
  } catch (error) {
    return failureOf(error);
  }
}

export const key: Check = {
  name: 'api key',
  needs: ['API_BASE_URL', 'API_KEY'],
  async run({ config }) {
    if (!config.API_KEY) return skipped(NOT_SET);
    const identity = await call(config, 'GetApiKeyIdentity', {});
    if (identity instanceof ServiceError) return judge(identity);
    const scopes = scopesIn(identity);
    if (scopes.length === 0) return ok('accepted; the service does not say which scopes it has: the next check tries');
    return scopes.includes('events:read')
      ? ok(`accepted, with ${scopes.join(', ')}`)
      : misconfigured(
          `it has ${scopes.join(', ')}, not events:read`,
          'give the key the scope events:read at the service',
        );
  },
};

export const replay: Check = {
  name: 'replay',
  needs: ['API_BASE_URL', 'API_KEY', 'DATABASE_URL'],
  after: ['api key'],
  async run({ config }) {
    if (!config.API_KEY) return skipped(NOT_SET);
    const status = await withStore((store) => store.read.status(0), config).catch(() => null);
    const after = status?.watermark ?? status?.newestCursor;
    const page = await call(config, 'ReplayEvents', { limit: 1, ...(after ? { after_cursor: after } : {}) });
    if (!(page instanceof ServiceError))
      return replayPage.safeParse(page).success
        ? ok('the key reads events (events:read)')
        : fault('ReplayEvents answers in an unknown shape', 'update this clone, or report it');
    if (page.status === 400 && after === undefined)
      return ok('the key may read events; there is no cursor yet to read from');
    if (page.status === 400)
      return warning(
        `the service does not know our cursor (${page.reason})`,
        'see that the key and DATABASE_URL are of the same account, then npx kit reconcile',
      );
    if (page.status === 403 && !REMEDIES[page.reason ?? ''])
      return misconfigured(
        `ReplayEvents is forbidden${page.reason ? ` (${page.reason})` : ''}`,
        'give the key the scope events:read at the service',
      );
    return judge(page);
  },
};

export async function call(config: Config, operation: string, request: Plain, fetch?: Fetch) {
  const { API_BASE_URL: baseUrl = '', API_KEY: apiKey = '' } = config;
  const service = createService({ baseUrl, apiKey, fetch, paid: false });
  try {
    return await service.call(operation, request, { deadlineMs: PATIENCE_MS });
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

const REMEDIES: Record<string, string> = {
  API_KEY_IP_FORBIDDEN: "add this machine's address to the key's allowed IPs",
  401: 'copy API_KEY whole and without quotes; or it has expired or was revoked: make another',
  403: "fix the key's permissions at the service",
  404: 'API_BASE_URL is not the API: it ends in /v1',
};

/** Turns an error of the API (contract 7.2) or of the network into a finding. */
function judge({ status, reason, cause }: ServiceError): Finding {
  const words = `the service answered ${status}${reason ? ` (${reason})` : ''}`;
  const remedy = REMEDIES[reason ?? ''] ?? REMEDIES[status];
  if (remedy) return misconfigured(words, remedy);
  if (status === 429) return warning(words, 'the account is at its limit: try again in a minute');
  if (status >= 500) return unreachable(words, 'the service is down or busy: try again later');
  if (status > 0) return misconfigured('what answers at API_BASE_URL is not the API: no JSON', REMEDIES[404] ?? '');
  const failure = failureOf(cause);
  const silence = `no answer from API_BASE_URL (${failure})`;
  if (isDns(failure)) return unreachable(`${silence}: its name does not resolve`, 'fix it, or the DNS here');
  if (isTls(failure)) return unreachable(`${silence}: TLS fails`, 'trust its certificate: NODE_EXTRA_CA_CERTS');
  if (failure === 'ECONNREFUSED') return unreachable(silence, 'fix its host and port, or the firewall');
  return unreachable(silence, 'fix API_BASE_URL: no redirect is followed, and a proxy may be in between');
}

/** The contract does not show the shape of this answer, so every word that looks like a scope (5.3) counts. */
function scopesIn(value: unknown): string[] {
  const text = JSON.stringify(value);
  const found = text.match(/\b(?:sessions|messages|events|dashboard|groups|product):[a-z_]+\b/g) ?? [];
  return [...new Set(found)].toSorted();
}
