// The addresses that the service delivers to (contract 6.3). A URL is checked at registration and before each attempt,
// and the attempt connects to the checked IP address. A refusal names the exact reason.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { kindOf } from '../../base/ip-address.ts';
import { Refusal } from './refusal.ts';

export interface AddressRules {
  /** Resolves to the URL and the IP address to connect to. Throws Refusal (WEBHOOK_URL_*). */
  check(url: string): Promise<{ url: URL; address: string }>;
}

export interface AddressOptions {
  /** For rehearsals: also allows loopback addresses, with http and on any port. */
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
      if (!url?.hostname) throw refusal('INVALID', 'this is not an https address');
      if (!/^https?:$/.test(url.protocol)) throw refusal('INSECURE', `${url.protocol} is not https`);
      if (url.username || url.password) throw refusal('INVALID', 'the address must not contain a user or password');
      const host = url.hostname.replace(/^\[|\]$/g, '');
      const rehearsal = loopback && (host === 'localhost' || kindOf(host) === 'loopback');
      if (url.protocol !== 'https:' && !rehearsal)
        throw refusal('INSECURE', `${host} is addressed by http: the service delivers only by https${exception()}`);
      if (!['', '443', '8443'].includes(url.port) && !rehearsal)
        throw refusal('PORT', `port ${url.port}: the service delivers only to ports 443 and 8443${exception()}`);
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
    return loopback ? ' (in this rehearsal also to localhost, by http and on any port)' : '';
  }
}

function refusal(what: string, detail: string): Refusal {
  return new Refusal(400, `WEBHOOK_URL_${what}`, detail);
}

async function resolveName(name: string): Promise<string[]> {
  const found = await lookup(name, { all: true });
  return found.map(({ address }) => address);
}
