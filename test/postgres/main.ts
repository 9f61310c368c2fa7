// `npm run postgres`: a server to try the kit on.
import { startServer } from './server.ts';

const { url, stop } = await startServer({ safe: true });
let stopping: Promise<void> | undefined;
// npm sends a signal of the terminal once more.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void (stopping ??= stop().then(() => process.exit(0))));
console.log(`PostgreSQL is ready. Ctrl-C ends it and removes its data.\n\n  DATABASE_URL=${url}\n`);
