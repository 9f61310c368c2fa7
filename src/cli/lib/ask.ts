// Asks a person at the terminal.
import { createInterface } from 'node:readline/promises';

export function onTerminal(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

export async function agrees(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}
