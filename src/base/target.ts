// The target of a request, as in `GET <target> HTTP/1.1`. Strangers may send any text.
import { orUndefined } from './errors.ts';

/** False: Koa cannot parse the target, for example `http://[::1/x`, and would throw wherever it is used. */
export function canParseTarget(request: { readonly url: string; readonly path: string }): boolean {
  // This comes first, because the parser that Koa uses prints a warning that quotes the target.
  if (!request.url.startsWith('/') && !URL.canParse(request.url, 'http://receiver')) return false;
  return orUndefined(() => request.path) !== undefined;
}
