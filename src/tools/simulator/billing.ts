// Quotes and the account's balance (contract 4.1, 7.3, 7.4). A quote is for one operation with one request, expires, and
// is used once. The contract does not show how a quote is asked for, so the simulator takes `{ operation, request }`.
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../random.ts';
import { Refusal } from './refusal.ts';
import { valid } from './valid.ts';

export interface Billing {
  /** POST /billing/quotes (4.1, 4.3). Throws Refusal if the operation is none of `paid`. */
  quote(call: unknown, paid: string[]): object;
  /**
   * Uses a quote for this request to one of these operations. Throws Refusal 428 without a quote, 409 if it has expired,
   * was used or is for something else, 402 without balance.
   */
  pay(billing: unknown, operations: string[], request: unknown): void;
  /** How many operations the balance pays for. Default: any number. */
  balance(operations: number): void;
  /** Expires every quote. */
  expire(): void;
}

/** The contract does not say how long a quote is valid. */
const VALID_MS = 5 * 60_000;
const quoting = z.looseObject({ operation: z.string(), request: z.record(z.string(), z.unknown()) });
const billing = z.looseObject({ quoteId: z.string() });

export function createBilling({ random, clock }: { random: Random; clock: Clock }): Billing {
  const quotes = new Map<string, { operation: string; request: unknown; until: number }>();
  let balance = Infinity;

  return {
    quote(call, paid) {
      const { operation, request } = valid(quoting, call, 'REQUEST_INVALID');
      if (!paid.includes(operation)) throw new Refusal(400, 'REQUEST_INVALID', `${operation} is not paid`);
      const quoteId = random.uuid();
      quotes.set(quoteId, { operation, request, until: clock.now() + VALID_MS });
      return { quoteId };
    },
    pay(paying, operations, request) {
      const quoteId = billing.safeParse(paying).data?.quoteId;
      if (quoteId === undefined) throw new Refusal(428, 'BILLING_QUOTE_REQUIRED');
      const quote = quotes.get(quoteId);
      const isForThis = quote && operations.includes(quote.operation) && isDeepStrictEqual(quote.request, request);
      if (!isForThis || clock.now() >= quote.until) throw new Refusal(409, 'BILLING_QUOTE_EXPIRED');
      if (balance < 1) throw new Refusal(402);
      quotes.delete(quoteId);
      balance--;
    },
    balance: (operations) => void (balance = operations),
    expire: () => quotes.clear(),
  };
}
