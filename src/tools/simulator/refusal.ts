// A call that the service refuses, with the status, reason and error envelope of the contract (7).

/** Error codes by HTTP status (contract 7.2). */
const CODES: Record<number, string> = {
  400: 'VALIDATION_FAILED',
  401: 'UNAUTHENTICATED',
  402: 'PAYMENT_REQUIRED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  413: 'VALIDATION_FAILED',
  428: 'PAYMENT_REQUIRED',
  429: 'RATE_LIMITED',
  503: 'UNAVAILABLE',
  504: 'UNAVAILABLE',
};

export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly reason: string | undefined;
  /** `detail` is shown at the console only. It is not sent. */
  constructor(status: number, reason?: string, detail?: string) {
    super(detail ?? reason ?? `status ${status}`);
    this.name = 'Refusal';
    this.status = status;
    this.code = CODES[status] ?? 'INTERNAL';
    this.reason = reason;
  }
}

/** The error envelope (contract 7.1). */
export function envelopeOf({ code, reason }: Refusal, requestId: string): object {
  return { error: { code, message: 'A chamada foi recusada.', requestId, ...(reason && { reason }) } };
}
