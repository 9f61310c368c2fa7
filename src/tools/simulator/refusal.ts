// A call that the service refuses: status, code, reason and envelope (contract 7).

/** By status: the code, and the usual reason. */
export const ERRORS: Record<number, [code: string, reason?: string]> = {
  400: ['VALIDATION_FAILED', 'REQUEST_INVALID'],
  401: ['UNAUTHENTICATED', 'API_AUTH_REQUIRED'],
  402: ['PAYMENT_REQUIRED'],
  403: ['FORBIDDEN', 'RPC_METHOD_FORBIDDEN'],
  404: ['NOT_FOUND'],
  409: ['CONFLICT', 'BILLING_QUOTE_EXPIRED'],
  413: ['VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE'],
  428: ['PAYMENT_REQUIRED', 'BILLING_QUOTE_REQUIRED'],
  429: ['RATE_LIMITED', 'RATE_LIMITED'],
  500: ['INTERNAL'],
  503: ['UNAVAILABLE'],
  504: ['UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED'],
};
export const STATUSES = Object.keys(ERRORS);

export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, reason = ERRORS[status]?.[1]) {
    super(reason);
    this.name = 'Refusal';
    this.status = status;
  }

  envelope(requestId: string): string {
    const [code] = ERRORS[this.status] ?? ['INTERNAL'];
    const error = { code, message: 'A chamada foi recusada.', requestId };
    return JSON.stringify({ error: { ...error, ...(this.message && { reason: this.message }) } });
  }
}

/** The answer to a call does not arrive. */
export class Lost extends Error {}
