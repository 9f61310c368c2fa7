// Which addresses the service delivers to (contract 6.3): asked at registration and again at every delivery, which then
// goes to the very address that was checked. Says exactly why one is refused.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { kindOf } from '../../base/ip-address.ts';
import { Refusal } from './refusal.ts';

export interface AddressRules {
  /** Resolves to where to connect. Throws Refusal (WEBHOOK_URL_*). */
  check(url: string): Promise<{ url: URL; address: string }>;
}

export interface AddressOptions {
  /** For rehearsals: loopback addresses, and http and any port to them. */
  loopback?: boolean;
  resolve?: (name: string) => Promise<string[]>;
}

export function createAddressRules({ loopback = false, resolve = resolveName }: AddressOptions = {}): AddressRules {
  function allowed(address: string): boolean {
    const kind = kindOf(address);
    return kind === undefined || (loopback && kind === 'loopback');
  }

  return {
    async check(text) {
      const url = URL.parse(text);
      if (!url?.hostname) throw refusal('INVALID', 'this is no https address');
      if (!/^https?:$/.test(url.protocol)) throw refusal('INSECURE', `${url.protocol} is not https`);
      if (url.username || url.password) throw refusal('INVALID', 'user and password do not belong into the address');
      const host = url.hostname.replace(/^\[|\]$/g, '');
      const rehearsal = loopback && (host === 'localhost' || kindOf(host) === 'loopback');
      if (url.protocol !== 'https:' && !rehearsal)
        throw refusal('INSECURE', `${host} is reached by http: only https is delivered to${exception()}`);
      if (!['', '443', '8443'].includes(url.port) && !rehearsal)
        throw refusal('PORT', `port ${url.port}: only 443 and 8443 are delivered to${exception()}`);
      const addresses = isIP(host) ? [host] : await resolve(host).catch(() => []);
      const [first] = addresses;
      if (first === undefined) throw refusal('UNRESOLVED', `the name ${host} has no address: is it in the public DNS?`);
      const wrong = addresses.find((address) => !allowed(address));
      if (wrong !== undefined) {
        const named = wrong === host ? host : `${host} is ${wrong}, which`;
        throw refusal(
          'PRIVATE',
          `${named} is a ${kindOf(wrong)} address: the service delivers to public addresses only`,
        );
      }
      return { url, address: first };
    },
  };

  function exception(): string {
    return loopback ? ', in this rehearsal also localhost by http and on any port' : '';
  }
}

function refusal(what: string, detail: string): Refusal {
  return new Refusal(400, `WEBHOOK_URL_${what}`, detail);
}

async function resolveName(name: string): Promise<string[]> {
  const found = await lookup(name, { all: true });
  return found.map(({ address }) => address);
}
