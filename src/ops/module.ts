// Registers the ops port. The keep process opens it; the receive process checks at start that the port is free.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { EXIT } from '../base/errors.ts';
import type { KeepModule } from '../keep/module.ts';
import type { ReceiveModule } from '../receive/module.ts';
import { listen } from '../receive/server.ts';
import { createOpsServer } from './server.ts';

export const ops: KeepModule = async (keep) => {
  const { config, log, shared, wake } = keep;
  const server = createOpsServer({ ...keep, rules: shared.rules, onChange: wake });
  server.on('error', (error: NodeJS.ErrnoException) => {
    log.fatal({ code: error.code, port: config.OPS_PORT }, 'the ops port cannot be opened: set OPS_PORT to a free one');
    process.exit(EXIT.failed);
  });
  server.listen(config.OPS_PORT, config.OPS_HOST);
  await once(server, 'listening');
  const host = config.OPS_HOST.includes(':') ? `[${config.OPS_HOST}]` : config.OPS_HOST;
  log.info(`the page is at http://${host}:${(server.address() as AddressInfo).port}`);
  return {
    async stop() {
      server.close();
      server.closeAllConnections();
    },
  };
};

export const opsPort: ReceiveModule = {
  async check({ OPS_PORT, OPS_HOST }) {
    const probe = createServer();
    await listen(probe, 'OPS_PORT', OPS_PORT, OPS_HOST);
    probe.close();
    await once(probe, 'close');
  },
};
