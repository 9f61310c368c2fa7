// Explains why a delivery did not get through the proxy. It uses the answer, and the refusals that the receiver
// counted meanwhile.
import type { Config } from '../../config.ts';
import { REFUSALS } from '../../receive/causes.ts';
import { DELIVERY } from '../../wire/headers.ts';
import { isDns, isTls } from '../lib/post.ts';
import { fault, misconfigured, shown, unreachable, type Finding } from './check.ts';
import { PLAIN, type Arrival, type Probe, type Prober } from './probe.ts';

const DAYS = 86_400;

/** Call this only after a direct delivery has arrived, so that the receiver itself is not at fault. */
export async function explain(
  arrival: Arrival,
  probe: Probe,
  url: string,
  prober: Prober,
  { PORT, WEBHOOK_PATH }: Config,
): Promise<Finding> {
  const { status, location, failure = '' } = arrival;
  const words = `a delivery ${probe.name} was answered ${status || 'by a cut connection'}`;
  const target = location === undefined ? null : URL.parse(location, url);
  const cut = probe !== PLAIN && /ECONNRESET|EPIPE/.test(failure);
  if (status === 0 && !cut) return judgeSilence(failure, url);
  if (status >= 200 && status < 300)
    return misconfigured(
      `${words}, but nothing is in this store: another server answers`,
      `find the server at ${shown(url)}, and let it pass deliveries to port ${PORT}`,
    );
  if (status >= 300 && status < 400)
    return misconfigured(
      `${words}: a redirect${target ? ` to ${shown(target.href)}` : ''}`,
      'the service follows none: register the address that it leads to, or end the redirect',
    );
  const causes = cut ? [] : await prober.causesOf(url, probe);
  if (status === 401) return judgeRefusal(words, probe, url, prober);
  if (status === 404 || status === 405) {
    const ours = causes.includes('path') || causes.includes('method');
    return ours
      ? misconfigured(
          `${words} by the receiver`,
          `the proxy changes path or method: pass POST ${WEBHOOK_PATH} unchanged`,
        )
      : misconfigured(`${words} by the proxy`, `let it pass POST ${WEBHOOK_PATH} to port ${PORT}`);
  }
  if (status === 413 || cut) {
    return causes.includes('body_limit')
      ? misconfigured(`${words} by the receiver`, REFUSALS.body_limit.remedy)
      : misconfigured(`${words} by the proxy`, 'let it pass bodies of 12 MiB (nginx: client_max_body_size 13m)');
  }
  if (causes.includes('content_encoding'))
    return misconfigured(`${words}: the proxy compresses bodies`, REFUSALS.content_encoding.remedy);
  if (causes.includes('store')) return fault(`${words} by the receiver`, REFUSALS.store.remedy);
  if (status >= 502 && status <= 504)
    return unreachable(`${words} by the proxy, which does not reach the receiver`, `point it at port ${PORT}`);
  if (status === 403)
    return misconfigured(`${words} by the proxy`, 'a firewall or bot check refuses it: take this path out');
  return fault(words, "see the proxy's log");
}

function judgeSilence(failure: string, url: string): Finding {
  const words = `no answer at ${shown(url)} (${failure})`;
  if (failure === 'ECONNREFUSED') return unreachable(words, 'nothing listens there: start the proxy, open the port');
  if (isTls(failure))
    return misconfigured(
      `${words}: TLS fails`,
      'give it a certificate that is valid for this name, or trust its issuer: NODE_EXTRA_CA_CERTS',
    );
  if (isDns(failure)) return misconfigured(words, 'the name does not resolve: fix it, or add it to the DNS');
  return unreachable(words, 'check that the firewall lets it through, and that the proxy answers within 10 s');
}

/**
 * Explains a 401. Sends the delivery again, signed three days ago: if its headers get through, the receiver counts
 * `far_timestamp`, a cause that no other delivery has.
 */
async function judgeRefusal(words: string, probe: Probe, url: string, prober: Prober): Promise<Finding> {
  const causes = await prober.causesOf(url, { ...probe, age: 3 * DAYS });
  if (causes.includes('far_timestamp'))
    return misconfigured(`${words}: the proxy changes its body`, 'let it pass bodies untouched, byte for byte');
  const { signature, timestamp } = DELIVERY;
  const lost = causes.includes('no_signature') ? signature : causes.includes('bad_timestamp') ? timestamp : null;
  return lost
    ? misconfigured(`${words}: the proxy strips the ${lost} header`, 'let it pass the headers of the service')
    : misconfigured(`${words}, not by the receiver`, 'the proxy asks for a login of its own: take this path out of it');
}
