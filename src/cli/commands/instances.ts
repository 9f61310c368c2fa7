// Lists the instances of the kit that share the store.
import { loadConfig, readEnv } from '../../config.ts';
import type { Status } from '../../store/read.ts';
import { parse, type Command } from '../lib/command.ts';
import { print, printJson } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { printTable } from '../lib/table.ts';

export default {
  summary: 'the instances that share a PostgreSQL store, and which one leads',
  usage: 'instances [--json]',
  async run(args) {
    const { values } = parse(args, { flags: ['json'], names: false });
    const { storePath } = loadConfig(readEnv(), { only: ['DATABASE_URL'] });
    const status = await withStore((store) => store.read.status(store.now()));
    if (values.json) printJson({ instances: status.instances });
    else show(status, storePath !== null);
  },
} satisfies Command;

export function show({ instances, processes }: Pick<Status, 'instances' | 'processes'>, isFile: boolean): void {
  const up = Object.entries(processes).flatMap(([role, state]) => (state === 'up' ? [role] : []));
  if (isFile) print(`the store is a file, so it has one instance; processes up: ${up.join(' ') || 'none'}`);
  else
    printTable(
      ['instance', 'version', 'since', 'leads', 'processes', 'handlers', 'state'],
      instances.map((one) => {
        const state = one.lostAt === null ? 'up' : `lost since ${one.lostAt}`;
        const place = [one.name, one.version, one.since, one.leads ? 'yes' : 'no'];
        return [...place, one.processes.join(' ') || null, one.handlers.length, state];
      }),
      { none: 'no instance gives signs of life', least: ['since', 'processes'] },
    );
}
