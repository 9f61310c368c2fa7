// Speed, as ratios in one run. With --readme its tables replace those in the README.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { growth, latency, rates, type Part, type PartOptions } from './parts.ts';

const USAGE = `npm run bench -- [rates] [latency] [growth]     all three where none is named; growth takes half an hour
  --rounds 3 --events 200000 --stored 0,1000000,10000000 --folder DIR --json --readme`;
const PARTS = { rates, latency, growth };
const README = new URL('../../README.md', import.meta.url);
const PLACE = /(?<=<!-- npm run bench -- --readme -->\n)[^]*(?=<!-- bench -->)/;

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
const names = (positionals.length > 0 ? positionals : Object.keys(PARTS)) as (keyof typeof PARTS)[];
if (values.help || names.some((name) => !(name in PARTS))) {
  console.log(USAGE);
  process.exit(values.help ? 0 : 2);
}
const options: PartOptions = {
  folder: mkdtempSync(join(values.folder, 'kit-bench-')),
  rounds: Number(values.rounds),
  events: Number(values.events),
  stored: values.stored.split(',').map(Number),
  progress: (line) => console.error(line),
};
process.on('exit', () => rmSync(options.folder, { recursive: true, force: true }));

const machine = `${cpus()[0]?.model.trim() ?? 'processor'}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GB, Node ${process.version}; server and sender on the same machine`;
const parts: Part[] = [];
for (const name of names) parts.push(await PARTS[name](options));
const text = `Measured ${new Date().toISOString().slice(0, 10)} on ${machine}.\n\n${parts.map(tableOf).join('\n')}`;
console.log(values.json ? JSON.stringify({ machine, parts }) : text);
if (values.readme) writeFileSync(README, readFileSync(README, 'utf8').replace(PLACE, `\n${text}\n`));

function tableOf({ title, rows }: Part): string {
  const heads = Object.keys(rows[0] ?? {});
  const lines = rows.map((row) => `| ${heads.map((head) => row[head] ?? '').join(' | ')} |`);
  return `**${title}**\n\n| ${heads.join(' | ')} |\n|${heads.map(() => ' --- |').join('')}\n${lines.join('\n')}\n`;
}
