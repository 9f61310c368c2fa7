// Says once which WEBHOOK_HEADER_PREFIX to set, if deliveries carry another one. Strangers choose their headers, so only
// a delivery that one of our secrets signed counts.
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { DELIVERY, receivedHeaders } from '../wire/headers.ts';
import type { BodyReader } from './body.ts';
import type { Verifier } from './verify.ts';

const SIGNATURE_HEADER = new RegExp(`^x-(?=.{1,40}$)[a-z0-9]+(-[a-z0-9]+)*-${DELIVERY.signature}$`, 'i');
/** Bytes. The body of a request that is refused anyway must not cost more. */
const LONGEST = 64 * 1024;

interface Options {
  bodies: BodyReader;
  log: Logger;
  machine: Clock;
  prefix: string;
  verifier: Verifier;
}

export function createPrefixAdvice({ bodies, log, machine, prefix, verifier }: Options) {
  const own = receivedHeaders(prefix);
  let said = false;

  /** Call it with a request that carries no signature under our prefix. It may read the body. */
  return async (request: IncomingMessage): Promise<void> => {
    const { headers } = request;
    // A sender that expects 100-continue waits with its body.
    if (said || headers.expect !== undefined) return;
    const found = Object.keys(headers).find((name) => SIGNATURE_HEADER.test(name));
    const other = found?.slice(0, -DELIVERY.signature.length);
    if (other === undefined || other === prefix.toLowerCase()) return;
    const { signature, timestamp } = receivedHeaders(other);
    const renamed = { [own.signature]: headers[signature], [own.timestamp]: headers[timestamp] };
    const claimed = verifier.headers({ headers: renamed }, machine.now());
    if (typeof claimed === 'string') return;
    const check = verifier.body(claimed);
    const parts = await bodies.read(request, LONGEST, undefined, check.update);
    if (said || typeof parts === 'string' || typeof check.end(machine.now()) === 'string') return;
    said = true;
    log.warn({ prefix: other }, `deliveries carry other header names: set WEBHOOK_HEADER_PREFIX=${other}`);
  };
}
