// Tries ALERT_URL with a test alarm, and HEARTBEAT_URL with a ping. Their addresses hold secrets, so none is shown.
import { call, reasonOf, send } from '../../alarms/notifier.ts';
import { createCompose } from '../../alarms/post.ts';
import { iso } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import { loadConfig, readEnv } from '../../config.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { fail, print, printJson } from '../lib/print.ts';
import { clock } from '../lib/store.ts';

const NEEDS = ['ALERT_URL', 'HEARTBEAT_URL', 'OPS_ORIGIN', 'OPS_HOST', 'OPS_PORT'] as const;
const REMEDY = 'set it to the address that the service shows, then npx kit reload';

export default {
  summary: 'post a test alarm to ALERT_URL, and ping HEARTBEAT_URL',
  usage: 'alert test [--json]',
  async run(args) {
    const { values, positionals } = parse(args, { flags: ['json'] });
    if (positionals.join(' ') !== 'test') throw new UsageError('name what to do: test');
    const config = loadConfig(readEnv(), { only: [...NEEDS] });
    const { ALERT_URL, HEARTBEAT_URL } = config;
    const compose = createCompose({ ...config, storePath: '' }, {}, 0);
    const detail = 'alarms of this kit arrive here; nothing is wrong';
    const post = { ...compose({ name: 'test', since: iso(clock.now()) ?? '', detail }), gravity: 'test' } as const;
    const tried = [
      ...(ALERT_URL ? [await attempt('ALERT_URL', () => send(ALERT_URL, post))] : []),
      ...(HEARTBEAT_URL ? [await attempt('HEARTBEAT_URL', () => call(HEARTBEAT_URL, {}))] : []),
    ];
    if (tried.length === 0)
      return fail('neither ALERT_URL nor HEARTBEAT_URL is set: nobody is told of alarms', EXIT.configuration);
    if (values.json) printJson(tried);
    else
      for (const { name, ok, answer } of tried)
        if (ok) print(`${name} took it (${answer})`);
        else fail(`${name} did not take it (${answer}): ${REMEDY}`);
    return tried.every(({ ok }) => ok) ? EXIT.done : EXIT.failed;
  },
} satisfies Command;

async function attempt(name: string, work: () => Promise<Response>) {
  try {
    const { ok, status } = await work();
    return { name, ok, answer: String(status) };
  } catch (error) {
    return { name, ok: false, answer: reasonOf(error) };
  }
}
