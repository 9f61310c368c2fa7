// Turns strace's record of a whole run into steps: writes and syncs of the store's files, acknowledgements, and returns
// of `ctx.complete`. Data that was acknowledged or completed must survive a power loss.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

export type Step =
  | { kind: 'write'; file: string; call: number; at: number; bytes: Buffer }
  | { kind: 'truncate'; file: string; call: number; at: number }
  | { kind: 'unlink'; file: string }
  /** Data written before the sync begins is on disk when the sync ends. */
  | { kind: 'sync begins' | 'sync ends'; file: string; call: number }
  | { kind: 'ends'; call: number }
  | { kind: 'acknowledged'; id: string }
  | { kind: 'completed'; key: string };

const LINE = /^(\d+)\s+(?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))$/;
const COMPLETED = 'completed ';
const ANSWER = 'HTTP/1.1 204';

export async function readRecording(lines: string, store: string): Promise<Step[]> {
  const steps: Step[] = [];
  /** The current system call of each thread. */
  const inside = new Map<string, { name: string; args: string; call: number; file: string | undefined }>();
  /** The event ids that each connection has received but not answered. */
  const asked = new Map<string, string[]>();
  let calls = 0;

  for await (const line of createInterface({ input: createReadStream(lines, 'latin1') })) {
    const [, thread = '', name, begun = '', resumed, rest = ''] = LINE.exec(line) ?? [];
    if (name !== undefined) {
      const whole = !begun.endsWith('<unfinished ...>');
      begin(thread, name, begun);
      if (whole) end(thread, begun);
    } else if (resumed !== undefined) end(thread, rest);
  }
  return steps;

  function begin(thread: string, name: string, args: string): void {
    const call = ++calls;
    const file = fileOf(args);
    inside.set(thread, { name, args, call, file });
    if (file === undefined) return said(name, args);
    if (name === 'fsync' || name === 'fdatasync') steps.push({ kind: 'sync begins', file, call });
    if (name === 'unlink') steps.push({ kind: 'unlink', file });
    if (name === 'ftruncate') steps.push({ kind: 'truncate', file, call, at: Number(/, (\d+)/.exec(args)?.[1]) });
    if (name === 'pwrite64') {
      const [, text = '', more, length, at] = /, "([^"]*)"(\.*), (\d+), (\d+)/.exec(args) ?? [];
      const bytes = unhex(text);
      if (more || bytes.length !== Number(length)) throw new Error(`a write of ${length} bytes was not recorded whole`);
      steps.push({ kind: 'write', file, call, at: Number(at), bytes });
    } else if (name.includes('write')) throw new Error(`${name} to the store: this recording cannot be replayed`);
  }

  function end(thread: string, rest: string): void {
    const ended = inside.get(thread);
    if (!ended) return;
    inside.delete(thread);
    const { name, args, call, file } = ended;
    if (name === 'read') heard(args, rest);
    if (file === undefined) return;
    if (/= -1 /.test(rest)) throw new Error(`${name} of ${file} failed while it was recorded`);
    steps.push(name.endsWith('sync') ? { kind: 'sync ends', file, call } : { kind: 'ends', call });
  }

  /** The suffix of a store's file, '' for the store itself. Undefined for any other file. */
  function fileOf(args: string): string | undefined {
    const path = unhex(/^(?:\d+<|")([^>"]*)/.exec(args)?.[1] ?? '').toString();
    const name = path.startsWith(store) ? path.slice(store.length) : undefined;
    return name === '' || name === '-wal' || name === '-journal' ? name : undefined;
  }

  /** Adds a step if the text that a process sends or prints is a 204 or a completion. */
  function said(name: string, args: string): void {
    if (!/^(write|send)/.test(name)) return;
    const text = unhex(/"([^"]*)/.exec(args)?.[1] ?? '').toString('latin1');
    if (text.startsWith(COMPLETED)) steps.push({ kind: 'completed', key: text.slice(COMPLETED.length).trim() });
    if (!text.startsWith(ANSWER)) return;
    const id = asked.get(socketOf(args))?.shift();
    if (id !== undefined) steps.push({ kind: 'acknowledged', id });
  }

  function heard(args: string, rest: string): void {
    if (!args.includes('<\\x73\\x6f\\x63\\x6b')) return;
    const text = unhex(/"([^"]*)/.exec(rest)?.[1] ?? '').toString('latin1');
    const [, id] = /^x-svc-event-id: (\S+)/im.exec(text) ?? [];
    const socket = socketOf(args);
    if (id !== undefined) asked.set(socket, [...(asked.get(socket) ?? []), id]);
  }
}

/** The descriptor together with the socket's inode, because descriptors are reused. */
function socketOf(args: string): string {
  return args.slice(0, args.indexOf('>'));
}

function unhex(text: string): Buffer {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex');
}
