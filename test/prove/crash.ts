// The campaign `crash`: processes that are killed or kill themselves, and loss of power.
import { fatal } from './crash/fatal.ts';
import { kills } from './crash/kills.ts';
import { moments } from './crash/moments.ts';
import { power } from './crash/power.ts';
import { requireStrace } from './crash/strace.ts';
import type { Options, Report } from './report.ts';

export async function campaign(options: Options): Promise<Report> {
  await requireStrace();
  const rows = [await power(options), ...(await kills(options)), await moments(options), await fatal()];
  return { title: 'Crashes and power loss', rows };
}
