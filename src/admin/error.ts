// The error of a use case in this folder. The command line, the API and the page show the same message.

export class AdminError extends Error {
  /** input: change the request. missing: it does not exist. busy: retry later. */
  readonly code: 'input' | 'missing' | 'busy';
  /** A command that helps. */
  readonly remedy: string | undefined;
  constructor(code: AdminError['code'], message: string, remedy?: string) {
    super(message);
    this.name = 'AdminError';
    this.code = code;
    this.remedy = remedy;
  }
}
