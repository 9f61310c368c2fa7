// Checks PUBLIC_URL by the service's rules (contract 6.3): whether it can be registered, and whether deliveries can
// reach it.
import { lookup } from 'node:dns/promises';
import { kindOf } from '../../base/ip-address.ts';
import { misconfigured, ok, shown, skipped, type Check } from './check.ts';

export const address: Check = {
  name: 'public address',
  needs: ['PUBLIC_URL', 'WEBHOOK_PATH'],
  async run({ config: { PUBLIC_URL, WEBHOOK_PATH } }) {
    if (!PUBLIC_URL) return skipped('PUBLIC_URL is not set: set it to the address registered at the service');
    const { protocol, port, username, password, pathname, hostname } = new URL(PUBLIC_URL);
    const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
    const addresses = found.map((one) => one.address);
    const closed = addresses.flatMap((one) => (kindOf(one) ? [`${one} (${kindOf(one)})`] : []));
    const judged: [boolean, string, string][] = [
      [protocol !== 'https:', 'is not https', 'put TLS in front of the receiver, and begin it with https://'],
      [!['', '443', '8443'].includes(port), `names port ${port}`, 'the service delivers to 443 and 8443 only'],
      [`${username}${password}` !== '', 'holds a user or a password', 'the service refuses them: take them out'],
      [pathname !== WEBHOOK_PATH, `ends in ${pathname}, not WEBHOOK_PATH ${WEBHOOK_PATH}`, 'make the two equal'],
      [addresses.length === 0, `names ${hostname}, which does not resolve`, 'fix the name, or add it to the DNS'],
      [closed.length > 0, `leads to ${closed.join(', ')}, not public`, 'the service delivers to public addresses only'],
    ];
    const faults = judged.flatMap(([holds, words, remedy]) =>
      holds ? [misconfigured(`PUBLIC_URL ${words}`, remedy)] : [],
    );
    return faults.length > 0 ? faults : ok(`${shown(PUBLIC_URL)} leads to ${addresses.join(', ')}`);
  },
};
