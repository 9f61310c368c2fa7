// What the demo prints: a line for each step, and the table of sums.
import { styleText } from 'node:util';

export interface Sum {
  name: string;
  meaning: string;
  want: number;
  got: number;
}

/** Prints each sum. Returns true if all are right. `output`: what the receiver wrote. */
export function show(sums: Sum[], output: () => string): boolean {
  print('');
  for (const { name, meaning, want, got } of sums) {
    const verdict = want === got ? mark('green', 'right') : mark('red', `wrong: ${want} expected`);
    print(`  ${name.padEnd(14)}${String(got).padStart(6)}  ${verdict.padEnd(8)}  ${meaning}`);
  }
  const wrong = sums.filter(({ want, got }) => want !== got);
  print(
    wrong.length === 0
      ? '\nThe sums are right.'
      : `\n${wrong.length} sums are wrong; what the receiver wrote:\n${output()}`,
  );
  return wrong.length === 0;
}

export function line(name: string, text: string): void {
  print(`  ${name.padEnd(24)}${text}`);
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function mark(colour: 'green' | 'red', text: string): string {
  return process.stdout.isTTY ? styleText(colour, text) : text;
}
