// What strace has written down of a run of the whole kit, as steps: writes and syncs of the store, answers, completions.
import { spawnSync } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Step } from './disk.ts';

const CALLS = 'write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,unlink,sendto,sendmsg,read';
/** SQLite's longest write is a page. */
const LONGEST = 4_096;
const LINE = /^(\d+)\s+(?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))$/;

export function requireStrace(): void {
  if (spawnSync('strace', ['-V']).status !== 0)
    throw new Error('strace is missing: apt-get install strace (Debian, Ubuntu)');
}

/** Comes before the command. The traced process stays our child. */
export const recorder = (file: string): string[] =>
  `strace -D -qq -f -y -xx -s ${LONGEST} -e trace=${CALLS} -o`.split(' ').concat(file);

export async function readRecording(file: string, store: string): Promise<Step[]> {
  const steps: Step[] = [];
  /** The call that each thread is in. */
  const inside = new Map<string, { name: string; args: string; call: number; of: string | undefined }>();
  /** The ids of delivered events that have no answer yet, by socket. */
  const asked = new Map<string, string[]>();
  let calls = 0;
  for await (const line of createInterface({ input: createReadStream(file, 'latin1') })) {
    const [, thread = '', name, args = '', resumed, rest = ''] = LINE.exec(line) ?? [];
    if (name !== undefined) begin(thread, name, args);
    if (resumed !== undefined) end(thread, rest);
    else if (name !== undefined && !args.endsWith('<unfinished ...>')) end(thread, args);
  }
  return steps;

  function begin(thread: string, name: string, args: string): void {
    const [call, of] = [++calls, endOf(args, store)];
    inside.set(thread, { name, args, call, of });
    if (of === undefined) return /^(write|send)/.test(name) ? told(args) : undefined;
    if (name.endsWith('sync')) steps.push({ kind: 'sync begins', file: of, call });
    else if (name === 'unlink') steps.push({ kind: 'unlink', file: of });
    else if (name === 'ftruncate') steps.push({ kind: 'write', file: of, call, at: Number(/, (\d+)/.exec(args)?.[1]) });
    else if (name === 'pwrite64') {
      const [, text = '', , length, at] = /, "([^"]*)"(\.*), (\d+), (\d+)/.exec(args) ?? [];
      const bytes = unhex(text);
      if (bytes.length !== Number(length)) throw new Error(`a write of ${length} bytes was not recorded whole`);
      steps.push({ kind: 'write', file: of, call, at: Number(at), bytes });
    } else if (name !== 'read') throw new Error(`${name} to the store cannot be played`);
  }

  function end(thread: string, rest: string): void {
    const { name = '', args = '', call = 0, of } = inside.get(thread) ?? {};
    inside.delete(thread);
    if (name === 'read' && of === undefined) heard(args, rest);
    if (of === undefined) return;
    if (/= -1 /.test(rest)) throw new Error(`${name} of the store failed while it was recorded`);
    steps.push(name.endsWith('sync') ? { kind: 'sync ends', file: of, call } : { kind: 'ends', call });
  }

  function told(args: string): void {
    const text = textIn(args);
    const [, key] = /^completed (\S+)/.exec(text) ?? [];
    const id = text.startsWith('HTTP/1.1 204') ? asked.get(socketOf(args))?.shift() : undefined;
    if (key !== undefined) steps.push({ kind: 'completed', what: key });
    if (id !== undefined) steps.push({ kind: 'acknowledged', what: id });
  }

  function heard(args: string, rest: string): void {
    const [, id] = /^x-svc-event-id: (\S+)/im.exec(textIn(rest)) ?? [];
    const socket = socketOf(args);
    if (id !== undefined) asked.set(socket, [...(asked.get(socket) ?? []), id]);
  }
}

/** What follows the store's name: nothing, `-wal`, `-journal`. Undefined: another file, or one that SQLite remakes. */
function endOf(args: string, store: string): string | undefined {
  const path = unhex(/^(?:\d+<|")([^>"]*)/.exec(args)?.[1] ?? '').toString();
  const end = path.startsWith(store) ? path.slice(store.length) : undefined;
  return end === '' || end === '-wal' || end === '-journal' ? end : undefined;
}

/** The descriptor and its inode, because descriptors are used again. */
const socketOf = (args: string): string => args.slice(0, args.indexOf('>'));
const textIn = (args: string): string => unhex(/"([^"]*)/.exec(args)?.[1] ?? '').toString('latin1');
const unhex = (text: string): Buffer => Buffer.from(text.replaceAll('\\x', ''), 'hex');
