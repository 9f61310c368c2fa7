// The kinds of addresses that the service refuses to deliver to (contract 6.3).
import { BlockList, isIP } from 'node:net';

const RANGES: [name: string, ranges: string[]][] = [
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['cloud-metadata', ['169.254.169.254/32', '168.63.129.16/32', '100.100.100.200/32', 'fd00:ec2::254/128']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  ['private-network', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10']],
  ['carrier-grade NAT', ['100.64.0.0/10']],
  ['local', ['0.0.0.0/8', '192.0.0.0/24', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4', '::/128', 'ff00::/8']],
  // These ranges embed an IPv4 address, which may be any of the above.
  ['translated', ['::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32']],
];
const REFUSED = RANGES.map(([name, ranges]) => ({ name, list: blockListOf(ranges) }));

/** The kind of an address that the service refuses. Undefined if the address is public. */
export function kindOf(address: string): string | undefined {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  return isIP(address) ? REFUSED.find(({ list }) => list.check(address, family))?.name : undefined;
}

/** Throws if an entry is neither an address nor a CIDR range. */
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
