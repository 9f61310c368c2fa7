// The public address, by the service's rules (contract 6.3): what it would refuse at registration or at a delivery.
import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { misconfigured, ok, shown, skipped, type Check } from './check.ts';

const PRIVATE = blockList(`
  0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.168.0.0/16
  198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 ::/127 fc00::/7 fe80::/10 ff00::/8 2001:db8::/32 64:ff9b:1::/48`);

export const address: Check = {
  name: 'public address',
  needs: ['PUBLIC_URL', 'WEBHOOK_PATH'],
  async run({ config: { PUBLIC_URL, WEBHOOK_PATH } }) {
    if (!PUBLIC_URL) return skipped('PUBLIC_URL is not set: set it to the address registered at the service');
    const { protocol, port, username, password, pathname, hostname } = new URL(PUBLIC_URL);
    const addresses = await resolve(hostname.replace(/^\[|\]$/g, ''));
    const closed = addresses.filter(isPrivate);
    const judged: [boolean, string, string][] = [
      [protocol !== 'https:', 'is not https', 'put TLS in front of the receiver, and begin it with https://'],
      [!['', '443', '8443'].includes(port), `names port ${port}`, 'the service delivers to 443 and 8443 only'],
      [`${username}${password}` !== '', 'holds a user or a password', 'the service refuses them: take them out'],
      [pathname !== WEBHOOK_PATH, `ends in ${pathname}, not WEBHOOK_PATH ${WEBHOOK_PATH}`, 'make the two equal'],
      [addresses.length === 0, `names ${hostname}, which does not resolve`, 'mend the name, or add it to the DNS'],
      [closed.length > 0, `leads to ${closed.join(', ')}, not public`, 'the service delivers to public addresses only'],
    ];
    const faults = judged.flatMap(([holds, words, remedy]) =>
      holds ? [misconfigured(`PUBLIC_URL ${words}`, remedy)] : [],
    );
    return faults.length > 0 ? faults : ok(`${shown(PUBLIC_URL)} leads to ${addresses.join(', ')}`);
  },
};

async function resolve(host: string): Promise<string[]> {
  try {
    return (await lookup(host, { all: true })).map((found) => found.address);
  } catch {
    return [];
  }
}

/** Private, loopback, link-local with the clouds' metadata, carrier-grade NAT, and what is nobody's. */
export function isPrivate(ip: string): boolean {
  return PRIVATE.check(ip, isIP(ip) === 6 ? 'ipv6' : 'ipv4');
}

function blockList(text: string): BlockList {
  const list = new BlockList();
  for (const range of text.trim().split(/\s+/)) {
    const [net = '', bits] = range.split('/');
    list.addSubnet(net, Number(bits), net.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}
