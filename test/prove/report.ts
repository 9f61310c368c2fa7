// What a campaign takes and what it hands back. A campaign tells what it did and saw; it never prints.
export interface Options {
  seed: number;
  /** A sample that a test can wait for; a release takes the whole. */
  short: boolean;
  /** Called with each sign of life of long work. */
  progress: (line: string) => void;
}

export interface Row {
  what: string;
  seen: string;
  /** Each a sentence; none where everything held. */
  violations: string[];
}

export interface Report {
  title: string;
  rows: Row[];
}

/** A campaign throws it where it cannot run here; the message names the tool and how to get it. */
export class MissingTool extends Error {}
