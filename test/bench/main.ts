// `npm run bench`: compares the speed of the kit and other servers. `--readme` writes the tables into README.md.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describe, EXIT } from '../../src/base/errors.ts';
import { endsWithSignals, whole } from './asked.ts';
import { postgres } from './postgres.ts';
import { busy, growth, latency, rates, type Part, type PartOptions } from './parts.ts';

const USAGE = `npm run bench -- [rates] [busy] [latency] [growth] [postgres]     default: all; growth takes half an hour
  --rounds 3 --events 200000 --stored 0,1000000,10000000 --folder DIR --json --readme`;
const PARTS = { rates, busy, latency, growth, postgres };
const README = new URL('README.md', import.meta.url);
const PLACE = /(?<=<!-- npm run bench -- --readme -->\n)[^]*(?=<!-- bench -->)/;

const { names, json, readme, options } = asked();
endsWithSignals();
process.on('exit', () => rmSync(options.folder, { recursive: true, force: true }));

const machine = `${cpus()[0]?.model.trim() ?? 'processor'}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GB, Node ${process.version}; server and sender on the same machine`;
const parts: Part[] = [];
for (const name of names) parts.push(await PARTS[name](options));
const text = `Measured ${new Date().toISOString().slice(0, 10)} on ${machine}.\n\n${parts.map((part, n) => tableOf(part, names[n])).join('\n')}`;
console.log(json ? JSON.stringify({ machine, parts }) : text);
if (readme) writeFileSync(README, readFileSync(README, 'utf8').replace(PLACE, `\n${text}\n`));

function asked(): { names: (keyof typeof PARTS)[]; json: boolean; readme: boolean; options: PartOptions } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        rounds: { type: 'string', default: '3' },
        events: { type: 'string', default: '200000' },
        stored: { type: 'string', default: '0,1000000,10000000' },
        folder: { type: 'string', default: tmpdir() },
        json: { type: 'boolean', default: false },
        readme: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      console.log(USAGE);
      process.exit(EXIT.done);
    }
    const unknown = positionals.find((name) => !(name in PARTS));
    if (unknown !== undefined) throw new Error(`Unknown part ${JSON.stringify(unknown)}.`);
    return {
      names: (positionals.length > 0 ? positionals : Object.keys(PARTS)) as (keyof typeof PARTS)[],
      json: values.json,
      readme: values.readme,
      options: {
        rounds: whole('--rounds', values.rounds, 1),
        events: whole('--events', values.events, 1),
        stored: values.stored.split(',').map((count) => whole('--stored', count, 0)),
        folder: mkdtempSync(join(values.folder, 'kit-bench-')),
        progress: (line) => console.error(line),
      },
    };
  } catch (error) {
    console.error(`${describe(error).message}\n\n${USAGE}`);
    return process.exit(EXIT.usage);
  }
}

function tableOf({ title, note, rows }: Part, name = ''): string {
  const heads = Object.keys(rows[0] ?? {});
  const lines = rows.map((row) => `| ${heads.map((head) => row[head] ?? '').join(' | ')} |`);
  return `## ${title}\n\n\`npm run bench -- ${name}\`\n\n${note}\n\n| ${heads.join(' | ')} |\n|${heads.map(() => ' --- |').join('')}\n${lines.join('\n')}\n`;
}
