// Sends signed deliveries to the receiver: first directly, then through the public address. If only the second fails,
// a proxy is at fault.
import { readiness, withStore } from '../lib/store.ts';
import { loopbackUrl, TO_DELIVER } from '../lib/post.ts';
import { fault, misconfigured, ok, shown, skipped, unreachable, warning, type Check, type Finding } from './check.ts';
import { createProber, PLAIN, UNUSUAL, type Arrival } from './probe.ts';
import { explain } from './proxy.ts';

export const receiver: Check = {
  name: 'receiver',
  needs: [...TO_DELIVER, 'DATABASE_URL'],
  after: ['store folder', 'store file'],
  run: (context) =>
    withStore(async (store) => {
      const { send } = createProber(context, store);
      const url = loopbackUrl(context.config);
      const secrets = context.config.WEBHOOK_SECRET;
      for (const [n, secret] of secrets.entries()) {
        const found = judgeDirect(await send(url, { ...PLAIN, secret }), url, `secret ${n + 1} of ${secrets.length}`);
        if (found) return found;
      }
      return ok(
        `${url} accepts deliveries signed with each of ${secrets.length} secrets, and stores their exact bytes`,
      );
    }, context.config),
  async groundless({ config }) {
    const { words, listens } = await readiness(config);
    return listens
      ? skipped(`the store has a fault; it says: ${words}`)
      : unreachable(words, 'start the receiver with npm start, or fix PORT and HOST');
  },
};

function judgeDirect({ status, arrived, failure }: Arrival, url: string, secret: string): Finding | undefined {
  if (arrived) return undefined;
  if (status === 0)
    return unreachable(
      `nothing answers at ${url} (${failure})`,
      'start the receiver with npm start, or fix PORT and HOST',
    );
  if (status === 204)
    return misconfigured(
      `${url} answers 204, but nothing is in this store`,
      'give both the same DATABASE_URL and PORT',
    );
  if (status === 401)
    return misconfigured(
      `the running receiver refuses ${secret}`,
      'npx kit reload (in compose: docker compose up -d), so that it reads WEBHOOK_SECRET again; restart it if WEBHOOK_HEADER_PREFIX was changed',
    );
  if (status === 503)
    return fault('the receiver answers 503', 'the store cannot be written, or the receiver is stopping: see its log');
  return misconfigured(`${url} answers ${status}`, 'it has another WEBHOOK_PATH, or another program listens on PORT');
}

export const roundTrip: Check = {
  name: 'round trip',
  needs: [...TO_DELIVER, 'DATABASE_URL', 'PUBLIC_URL'],
  after: ['receiver'],
  run(context) {
    const url = context.url ?? context.config.PUBLIC_URL;
    if (!url) return skipped('neither PUBLIC_URL nor --url is set');
    return withStore(async (store) => {
      const prober = createProber(context, store);
      const first = await prober.send(url, PLAIN);
      if (!first.arrived) return explain(first, PLAIN, url, prober, context.config);
      const findings: Finding[] = [];
      for (const probe of UNUSUAL) {
        const arrival = await prober.send(url, probe);
        if (arrival.arrived) continue;
        const found = await explain(arrival, probe, url, prober, context.config);
        // An unusual content type is only a warning, because the service always sends application/json.
        findings.push(probe.contentType && found.remedy ? warning(found.detail, found.remedy) : found);
      }
      if (findings.length > 0) return findings;
      return ok(`${shown(url)} passes ${UNUSUAL.length + 1} kinds of deliveries on, byte for byte`);
    }, context.config);
  },
};
