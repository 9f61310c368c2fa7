// Checks of the store: its folder, its file, its free space, and whether the running receiver has the same file open.
import { accessSync, constants, existsSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { orUndefined } from '../../base/errors.ts';
import { startOf } from '../../base/process-start.ts';
import { sizeOf } from '../../store/sqlite/file-identity.ts';
import { freeBytesOf, networkOf } from '../../store/sqlite/folder.ts';
import type { Process } from '../../store/processes.ts';
import { withStore } from '../lib/store.ts';
import { fault, misconfigured, ok, skipped, unreachable, warning, type Check, type Finding } from './check.ts';

const MB = 1024 * 1024;
const LEAST_FREE = { fault: 64 * MB, warning: 512 * MB };
/** Normally the WAL starts anew past 32 MB. It grows further if a program reads for long or if `keep` is down. */
const LARGE_LOG = 256 * MB;

const NO_FILE = 'the store is in PostgreSQL';

export const folder: Check = {
  name: 'store folder',
  needs: ['DATABASE_URL'],
  run({ config: { storePath } }) {
    if (storePath === null) return skipped(NO_FILE);
    const at = dirname(storePath);
    if (!existsSync(at)) return misconfigured(`${at} does not exist`, 'start the receiver once, or fix DATABASE_URL');
    const files = [at, storePath, `${storePath}-wal`, `${storePath}-shm`].filter((path) => existsSync(path));
    const closed = files.find((path) => orUndefined(() => accessSync(path, constants.W_OK) ?? true) === undefined);
    if (closed)
      return misconfigured(`${closed} is not writable for this user`, 'give it to the user that runs the kit');
    const network = networkOf(at);
    if (network) return misconfigured(`${at} is on ${network}`, 'SQLite needs a local disk: set DATABASE_URL to one');
    const free = freeBytesOf(storePath);
    const room = `${Math.round(free / MB)} MB are free on its disk`;
    const remedy = 'free space, or keep less: RETENTION_DAYS, PAYLOAD_RETENTION_DAYS';
    if (free < LEAST_FREE.fault) return fault(room, remedy);
    return free < LEAST_FREE.warning ? warning(room, remedy) : ok(`${at}: local, writable, ${room}`);
  },
};

export const file: Check = {
  name: 'store file',
  needs: ['DATABASE_URL'],
  after: ['store folder'],
  async run({ config }) {
    const { storePath } = config;
    if (storePath === null) return skipped(NO_FILE);
    const pid = strayOf(storePath, '');
    if (pid)
      return fault(
        `process ${pid} has a store open that was replaced or deleted`,
        `stop the kit, then npx kit restore <file>: what was acknowledged is beside the store, in ${basename(storePath)}.replaced-…`,
      );
    const stray = strayOf(storePath, '-wal');
    if (stray)
      return fault(
        `process ${stray} has the store open, but its log was deleted`,
        'stop the kit with SIGTERM: it still has what was acknowledged, and writes it back',
      );
    if (!existsSync(storePath))
      return unreachable(
        `there is no store at ${storePath}`,
        'start the receiver once with npm start, or fix DATABASE_URL',
      );
    // Opening the store checks that the file is of this kit and version, and that `synchronous` is FULL.
    const receiver = await withStore(async (store) => {
      await store.state.note({});
      return (await store.processes.list()).find(({ role }) => role === 'receive');
    }, config);
    const log = sizeOf(`${storePath}-wal`);
    const size = `its log has ${(log / MB).toFixed(1)} MB`;
    return [
      ok(`${storePath}: of this kit and version, synchronous FULL, ${size}`),
      ...(log < LARGE_LOG
        ? []
        : [warning(size, 'end programs that read the file for long, and check that keep runs: npx kit status')]),
      judgeOpen(storePath, receiver),
    ];
  },
};

/** Finds a process that still has the replaced or deleted file open. Until it ends, the new file must not be opened. */
function strayOf(path: string, suffix: '' | '-wal'): string | undefined {
  const real = join(realpathSync(dirname(path)), basename(path)) + suffix;
  return orUndefined(() => readdirSync('/proc'))?.find((pid) => {
    const links = fdsOf(pid).map((fd) => orUndefined(() => readlinkSync(fd)));
    return links.includes(`${real} (deleted)`) && !links.includes(real);
  });
}

/** Whether the receiver has this file open. The kernel shows this only to the receiver's own user. */
function judgeOpen(path: string, receiver: Process | undefined): Finding {
  if (!receiver || startOf(receiver.pid) !== receiver.started)
    return skipped('no receiver with this file open is visible from here: npm start');
  const { pid } = receiver;
  const fds = fdsOf(String(pid));
  if (fds.length === 0) return skipped(`what process ${pid} has open is not visible to this user`);
  const { ino, dev } = statSync(path);
  const open = fds.map((fd) => orUndefined(() => statSync(fd)));
  return open.some((one) => one?.ino === ino && one.dev === dev)
    ? ok(`process ${pid}, which receives, has this very file open`)
    : fault(`process ${pid}, which receives, has another file open`, 'start the kit again: its store was replaced');
}

function fdsOf(pid: string): string[] {
  return orUndefined(() => readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`)) ?? [];
}
