// The instances, each behind a proxy of its own to the server, and the handlers that note what they do.
import { createCluster, NOTE, send } from '../../postgres/members.ts';
import { createProxy, type Proxy } from '../../postgres/proxy.ts';
import type { Server } from '../../postgres/server.ts';
import type { Kit } from '../../system/kit.ts';

const LANES = 40;

/** Notes the beginning and the end of each attempt. Some attempts take long. */
const NOTING = `${NOTE}export default { on: 'MessageReceived', retry: { attempts: 50, firstMs: 10, maxMs: 50 }, async handle(event) {
  note('begin', event);
  await new Promise((done) => setTimeout(done, Number(event.cursor) % 97 === 0 ? 700 : Number(event.cursor) % 9));
  note('end', event);
} };
`;
/** Writes a row of its own in the transaction that ends the task. */
const WRITING = `
export default {
  on: 'MessageReceived',
  retry: { attempts: 50, firstMs: 10, maxMs: 50 },
  async setup(tx) {
    await tx.run('create table if not exists seen (n bigint generated always as identity, cursor bigint, lane text, late int)');
  },
  async handle(event, ctx) {
    await ctx.complete((tx) => tx.run('insert into seen (cursor, lane, late) values (?, ?, ?)', event.cursor, event.sessionId, ctx.late ? 1 : 0));
  },
};
`;

export interface Member {
  kit: Kit;
  proxy: Proxy;
}

export type Scene = Awaited<ReturnType<typeof createScene>>;

export async function createScene(server: Server, count: number) {
  const url = `${server.url}?schema=kit`;
  const cluster = await createCluster(url, { noting: NOTING, writing: WRITING });
  const members: Member[] = [];
  for (let n = 0; n < count; n++) {
    const proxy = await createProxy(url);
    members.push({ proxy, kit: await cluster.add({}, proxy.url) });
  }
  return {
    server,
    cluster,
    members,
    load: (perSecond: number) =>
      send(
        members.map(({ kit }) => kit),
        perSecond,
        LANES,
      ),
    async remove(): Promise<void> {
      for (const { proxy } of members) proxy.pass();
      await cluster.remove();
      for (const { proxy } of members) proxy.close();
    },
  };
}
