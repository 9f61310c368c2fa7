// The console's command for one fault of the API: what a person may type, and the call that gets the fault.
import { Wrong, type Rehearsal } from './command.ts';
import { FAULTS, refuse, type Fault, type FaultName } from './faults.ts';
import { ERRORS } from './refusal.ts';

const NAMES = `fault and one of these, of which page-…, items-… and payload-… are for ReplayEvents:
  429, 500, 503, 504: this status; from 500 on, the call is carried out
  uncertain-sent, uncertain-unsent: 503 OUTCOME_UNCERTAIN; the call is, or is not carried out
  deadline-unsent: 504 RPC_DEADLINE_EXCEEDED; the call is not carried out
  cursor-invalid, not-found, too-large: 400, 404, 413
  proxy-500, proxy-502, proxy-503: this status, without the error envelope
  redirect, html, empty, array, half: 302; or 200 with HTML, nothing, [], half of the JSON
  cut, drip, flood, gzip: half, then a reset; byte by byte; 300 MB, plain or compressed
  page-types, page-short: fields of wrong types; one event, and has_more
  page-stuck, page-empty: next_cursor is after_cursor; likewise, without events
  page-back, page-ahead, page-end: next_cursor too low; too high; too high, without has_more
  items-reversed, items-repeated, items-old, items-many, items-no-cursor: false lists of events
  payload-not-json, payload-no-key, payload-two-keys: a json_payload that is no event
or a status, a reason, or both:`;
const FALSE_PAGE = /^(page|items|payload)-/;

export function fault({ service: { chaos, callNames } }: Rehearsal, ...words: string[]): string {
  const statuses = Object.keys(ERRORS).map((status) => wrap([status, ...reasonsOf(status)]));
  const possible = [NAMES, ...statuses].join('\n');
  if (words.length === 0) return `${possible}\nthen, for one operation or route alone:\n${wrap(callNames)}`;
  const [status = '', reason = ''] = words;
  // A status before its reason adds nothing.
  const [what = '', ...rest] = reasonsOf(status).includes(reason) ? words.slice(1) : words;
  const asked = faultOf(what);
  if (!asked) throw new Wrong(`${possible}\n${what} is none of these`);
  const calls = FALSE_PAGE.test(what) ? ['ReplayEvents'] : callNames;
  const wrong = rest.find((word, place) => place > 0 || !calls.includes(word));
  if (wrong !== undefined)
    throw new Wrong(`${wrong} cannot follow ${what}; one of these can:\n${wrap([...reasonsOf(what), ...calls])}`);
  const call = calls.length === 1 ? calls[0] : rest[0];
  chaos.next(asked, call);
  return `the next call${call === undefined ? '' : ` of ${call}`} gets the fault ${what}`;
}

function faultOf(what: string): FaultName | Fault | undefined {
  if (Object.hasOwn(FAULTS, what)) return what as FaultName;
  if (Object.hasOwn(ERRORS, what)) return refuse(Number(what));
  const status = Object.keys(ERRORS).find((one) => reasonsOf(one).includes(what));
  return status === undefined ? undefined : refuse(Number(status), what);
}

function reasonsOf(status: string): string[] {
  return Object.hasOwn(ERRORS, status) ? (ERRORS[status]?.split(' ').slice(1) ?? []) : [];
}

/** Indented lines of at most 100 columns. */
function wrap(words: string[]): string {
  return words
    .join(' ')
    .replaceAll(/(.{1,94})(?: |$)/g, '    $1\n')
    .slice(2, -1);
}
