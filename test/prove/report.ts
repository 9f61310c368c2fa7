// Input and output of a campaign. A campaign returns its report and never prints.
export interface Options {
  seed: number;
  /** True: the campaign runs a sample that is fast enough for a test. Run the long form before a release. */
  short: boolean;
  /** `faults` runs only the cases with this number, or whose name contains this text. */
  only?: string | undefined;
  /** Called during long work, to show that it goes on. */
  progress: (line: string) => void;
}

export interface Row {
  what: string;
  seen: string;
  /** One sentence for each violation. Empty: everything held. */
  violations: string[];
}

export interface Report {
  title: string;
  rows: Row[];
}

/** Thrown if a campaign cannot run on this machine. The message names the tool and how to get it. */
export class MissingTool extends Error {}

/** Thrown if `only` names no case. The message lists the cases. */
export class UnknownCase extends Error {}
