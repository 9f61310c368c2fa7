// Which addresses the service delivers to (contract 6.3): asked at registration and again at every delivery, which then
// goes to the very address that was checked. Says exactly why one is refused.
import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { Refusal } from '../tools/simulator/refusal.ts';

export interface AddressRules {
  /** Resolves to where to connect. Throws Refusal (WEBHOOK_URL_*). */
  check(url: string): Promise<{ url: URL; address: string }>;
}

export interface AddressOptions {
  /** For rehearsals: loopback addresses, and http and any port to them. */
  loopback?: boolean;
  resolve?: (name: string) => Promise<string[]>;
}

const RANGES: [name: string, ranges: string[]][] = [
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['cloud-metadata', ['169.254.169.254/32', '168.63.129.16/32', '100.100.100.200/32', 'fd00:ec2::254/128']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  ['private-network', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10']],
  ['carrier-grade NAT', ['100.64.0.0/10']],
  ['local', ['0.0.0.0/8', '192.0.0.0/24', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4', '::/128', 'ff00::/8']],
  // They carry an IPv4 address, which may be any of the above.
  ['translated', ['::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32']],
];
const REFUSED = RANGES.map(([name, ranges]) => ({ name, list: blockListOf(ranges) }));

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

/** What kind of address it is that nothing is delivered to; undefined where it is public. */
export function kindOf(address: string): string | undefined {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  return isIP(address) ? REFUSED.find(({ list }) => list.check(address, family))?.name : undefined;
}

/** Throws where one is neither an address nor a range of them. */
export function blockListOf(ranges: string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits, ...more] = range.split('/');
    const family = isIP(address);
    const longest = family === 6 ? 128 : 32;
    if (!family || more.length > 0 || (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= longest)))
      throw new Error('neither an IP address nor a CIDR range');
    list.addSubnet(address, Number(bits ?? longest), family === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

async function resolveName(name: string): Promise<string[]> {
  const found = await lookup(name, { all: true });
  return found.map(({ address }) => address);
}
