// The access decision of the ops port, shared by the API and the pages. Pure functions; access.ts reads the requests.

/** A writer has OPS_TOKEN, a reader OPS_READ_TOKEN. If no token is set, everybody on this machine is a writer. */
export type Who = 'anonymous' | 'reader' | 'writer';
/** `reveal` shows a body. */
export type What = 'read' | 'change' | 'reveal';
/**
 * `elsewhere`: a page of another site sent the request, or no token is set and Host names another machine. `unknown`: a
 * token is needed. `forbidden`: OPS_TOKEN is needed.
 */
export type Decision = 'allowed' | 'elsewhere' | 'unknown' | 'forbidden';

export interface Asked {
  who: Who;
  what: What;
  /**
   * False if a page of another site may have sent the request, or if no token is set and Host names another machine.
   */
  ours: boolean;
  /** Whether OPS_TOKEN is set. Without it, nobody may reveal a body, not even on this machine. */
  canReveal: boolean;
}

export function decide({ who, what, ours, canReveal }: Asked): Decision {
  if (!ours) return 'elsewhere';
  if (who === 'anonymous') return 'unknown';
  if (what === 'read') return 'allowed';
  return who === 'writer' && (what === 'change' || canReveal) ? 'allowed' : 'forbidden';
}

/**
 * Where a request comes from: without Origin and Sec-Fetch-Site (`site`), from a program. The text of an absent header is
 * empty. `outside` is the address in OPS_ORIGIN.
 */
export function sourceOf(
  { method, host, origin, site }: Record<'method' | 'host' | 'origin' | 'site', string>,
  outside?: URL,
): 'page' | 'program' | 'elsewhere' {
  if (method === 'POST' && !['', 'same-origin', 'none'].includes(site)) return 'elsewhere';
  if (origin === '') return site === 'same-origin' ? 'page' : 'program';
  const page = URL.parse(origin);
  return page !== null && (page.origin === outside?.origin || page.host === hostOf(host)?.host) ? 'page' : 'elsewhere';
}

const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Whether the Host names this machine, or the proxy in front of it. */
export function isKnownHost(host: string, outside?: URL): boolean {
  const url = hostOf(host);
  return url !== null && (LOCAL.has(url.hostname) || url.host === outside?.host);
}

function hostOf(host: string): URL | null {
  return /^[\w.:[\]-]+$/.test(host) ? URL.parse(`http://${host}`) : null;
}
