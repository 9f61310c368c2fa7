// `npm run bench`: compares the speed of the kit and other servers. `--readme` writes the tables into README.md.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describe, EXIT } from '../../src/base/errors.ts';
import { endsWithSignals, whole } from './asked.ts';
import { postgres } from './postgres.ts';
import { withSection } from './sections.ts';
import { busy, growth, latency, rates, type Part, type PartOptions } from './parts.ts';

const USAGE = `npm run bench -- [rates] [busy] [latency] [growth] [postgres]     default: all; growth takes half an hour
  --rounds 3 --events 200000 --stored 0,1000000,10000000 --folder DIR --json --readme`;
const PARTS = { rates, busy, latency, growth, postgres };
const README = new URL('README.md', import.meta.url);

const { names, json, readme, options } = asked();
endsWithSignals();
process.on('exit', () => rmSync(options.folder, { recursive: true, force: true }));

const machine = `${cpus()[0]?.model.trim() ?? 'processor'}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GB, Node ${process.version}`;
const parts: Part[] = [];
for (const name of names) {
  const part = await PARTS[name](options);
  if (readme) writeFileSync(README, withSection(readFileSync(README, 'utf8'), part.title, sectionOf(part, name)));
  parts.push(part);
}
console.log(json ? JSON.stringify({ machine, parts }) : parts.map((part, n) => sectionOf(part, names[n])).join('\n'));

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

function sectionOf({ title, note, rows }: Part, name = ''): string {
  const heads = Object.keys(rows[0] ?? {});
  const lines = rows.map((row) => `| ${heads.map((head) => row[head] ?? '').join(' | ')} |`);
  const measured = `${new Date().toISOString().slice(0, 10)}, ${machine}. ${note}`;
  return `## ${title}\n\n\`npm run bench -- ${name}\`\n\n${measured}\n\n| ${heads.join(' | ')} |\n|${heads.map(() => ' --- |').join('')}\n${lines.join('\n')}\n`;
}
