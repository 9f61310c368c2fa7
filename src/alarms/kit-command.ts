// How the commands in alarms are typed, so that they find this kit's store. If the file .env does not name it, they need
// DATABASE_URL. The address of a server holds a password, so it is left out.
import { orUndefined } from '../base/errors.ts';
import { loadConfig, readEnv, type Config, type Env } from '../config.ts';

export function kitCommand({ storePath, PORT }: Pick<Config, 'storePath' | 'PORT'>, file: Env = readEnv({})): string {
  if (storePath === null || storePath === orUndefined(() => loadConfig(file, { only: ['DATABASE_URL'] }).storePath))
    return 'npx kit';
  const url = `sqlite:${storePath}`;
  const quoted = /^[\w@%+=:,./-]+$/.test(url) ? url : `'${url.replaceAll("'", `'\\''`)}'`;
  return `DATABASE_URL=${quoted} PORT=${PORT} npx kit`;
}
