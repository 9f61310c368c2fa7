// The error of a use case in this folder. The command line, the API and the page show the same message.

export class AdminError extends Error {
  /** `input`: the request is wrong. `missing`: it names something that does not exist. `busy`: retry later. */
  readonly code: 'input' | 'missing' | 'busy';
  /** The next step for a person, for example a command. */
  readonly remedy: string | undefined;
  constructor(code: AdminError['code'], message: string, remedy?: string) {
    super(message);
    this.name = 'AdminError';
    this.code = code;
    this.remedy = remedy;
  }
}
