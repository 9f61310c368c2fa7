// Why requests are refused. `failure`: the service may have sent the request, and then counts a failure (contract 3.2).

export const CAUSES = {
  path: { status: 404, failure: false },
  method: { status: 405, failure: false },
  bad_http: { status: 400, failure: false },
  content_encoding: { status: 415, failure: true },
  no_signature: { status: 401, failure: false },
  bad_timestamp: { status: 401, failure: false },
  body_limit: { status: 413, failure: true },
  body_aborted: { status: 408, failure: false },
  body_stalled: { status: 408, failure: true },
  no_room: { status: 503, failure: true },
  bad_signature: { status: 401, failure: true },
  clock_skew: { status: 401, failure: true },
  store: { status: 503, failure: true },
} as const;

export type Cause = keyof typeof CAUSES;
