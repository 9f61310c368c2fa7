// Lists the instances of the kit that share the store.
import { EXIT } from '../../base/errors.ts';
import { parse, type Command } from '../lib/command.ts';
import { print, printJson } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { printTable } from '../lib/table.ts';

const command: Command = {
  summary: 'the instances that share a PostgreSQL store, and which one leads',
  usage: 'instances [--json]',
  async run(args) {
    const { values } = parse(args, { flags: ['json'], names: false });
    const { instances } = await withStore((store) => store.read.status(store.now()));
    if (values.json) printJson({ instances });
    else if (instances.length === 0) print('the store is a file, so it has one instance: see npx kit status');
    else
      printTable(
        ['instance', 'version', 'since', 'leads', 'processes', 'state'],
        instances.map(({ name, version, since, leads, processes, lostAt }) => {
          const state = lostAt === null ? 'up' : `lost at ${lostAt}`;
          return [name, version, since, leads ? 'yes' : 'no', processes.join(' '), state];
        }),
      );
    return EXIT.done;
  },
};
export default command;
