// What a handler may throw to say how its task ends.

/** The task ends as skipped. */
export class Skip extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Skip';
  }
}

/** The task ends as a dead letter, whatever attempts are left. */
export class Dead extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Dead';
  }
}

/** The task runs again after this time, without spending an attempt; at most 24 h in all. */
export class RetryAfter extends Error {
  readonly ms: number;
  constructor(ms: number, reason: string) {
    super(reason);
    this.name = 'RetryAfter';
    this.ms = ms;
  }
}
