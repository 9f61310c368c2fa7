// What is posted of an alarm. Slack and Mattermost show `text`, Discord shows `content`, programs read the rest.
import { hostname } from 'node:os';
import type { Config } from '../config.ts';
import type { AlarmRules } from '../keep/module.ts';

/** Discord refuses a longer `content`. */
const CONTENT = 2_000;

export interface News {
  name: string;
  /** ISO 8601. */
  since: string;
  /** What the alarm says. Null: it has ended. */
  detail: string | null;
}

export interface Post {
  text: string;
  content: string;
  name: string;
  /** `clear`: the alarm has ended. `test`: there is none. */
  gravity: 'critical' | 'warning' | 'clear' | 'test';
  /** The machine; with a PostgreSQL store the instance, as npx kit instances names it. */
  instance: string;
  since: string;
  /** The addresses of the screen that remedies the alarm, and of its paragraph in the runbook. */
  page: string;
  runbook: string;
}

export type Address = Pick<Config, 'OPS_ORIGIN' | 'OPS_HOST' | 'OPS_PORT'>;
export type Compose = (news: News) => Post;

/** `mainPid`: the main process. */
export function createCompose(
  config: Address & Pick<Config, 'storePath'>,
  rules: Partial<AlarmRules>,
  mainPid: number,
): Compose {
  const instance = config.storePath === null ? `${hostname()}:${mainPid}` : hostname();
  const origin = originOf(config);
  return ({ name, since, detail }) => {
    const text = `${name}: ${detail ?? 'all clear'}`;
    const { gravity = 'warning', page = '/' } = rules[name] ?? {};
    return {
      text,
      content: text.length > CONTENT ? `${text.slice(0, CONTENT - 1).toWellFormed()}…` : text,
      name,
      gravity: detail === null ? 'clear' : gravity,
      instance,
      since,
      page: `${origin}${page}`,
      runbook: `${origin}/runbook#${name}`,
    };
  };
}

/** Where people reach the ops port. */
export function originOf({ OPS_ORIGIN, OPS_HOST, OPS_PORT }: Address): string {
  if (OPS_ORIGIN !== undefined) return new URL(OPS_ORIGIN).origin;
  // These addresses stand for every address of the machine, and lead nowhere from a browser.
  const host = ['0.0.0.0', '::'].includes(OPS_HOST) ? 'localhost' : OPS_HOST;
  return `http://${host.includes(':') ? `[${host}]` : host}:${OPS_PORT}`;
}
