// What a campaign reports: what was tried, what was seen, and each violation in words.

export interface Row {
  what: string;
  seen: string;
  violations: string[];
}

export interface Options {
  short: boolean;
  /** The URL of a server, on which each kit gets a schema. Undefined: each kit has a file. */
  postgres?: string | undefined;
  progress: (line: string) => void;
}

/** A violation if the condition does not hold. */
export const unless = (holds: boolean, words: string): string[] => (holds ? [] : [words]);

/** A violation if the work fails. */
export const failure = (work: Promise<unknown>): Promise<string[]> =>
  work.then(
    () => [],
    (error: unknown) => [String(error)],
  );

export const percentile = (values: number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(values.length * part) - 1)] ?? NaN;
