// A handler that kills its process at every attempt to handle one event. Attempts must be counted before the handler
// starts, or the kit would retry for ever.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createKit, deliver, load, makeEvent, until } from '../../system/kit.ts';
import type { Row } from '../report.ts';
import { countsIn } from './look.ts';
import { COUNT } from './story.ts';

const ATTEMPTS = 2;
/** The number of the event that kills the process. The events of the load have smaller numbers. */
const EVENT = 1_000_000;
const MARKS = 'marks.txt';
const FATAL = `
import { appendFileSync } from 'node:fs';
export default {
  on: 'MessageReceived', lane: 'none', order: 'arrival', retry: { attempts: ${ATTEMPTS}, firstMs: 10, maxMs: 20 },
  handle(event) {
    if (event.data.body !== 'fatal') return;
    appendFileSync('${MARKS}', 'x');
    process.kill(process.pid, 'SIGKILL');
  },
};
`;

export async function fatal(): Promise<Row> {
  const kit = await createKit({ count: COUNT, fatal: FATAL });
  const marks = join(kit.folder, MARKS);
  const begun = (): number => (existsSync(marks) ? readFileSync(marks).length : 0);
  const letter = `select t.attempts from tasks t join events e on e.seq = t.event where e.id = 'evt_${EVENT}' and t.state = 'dead'`;
  const violations: string[] = [];
  try {
    await kit.start();
    const running = load(kit, 20);
    await deliver(kit, { ...makeEvent(EVENT), body: 'fatal' });
    // The handler may run ATTEMPTS + 1 times. If other tasks were running at its first crash, no attempt is counted,
    // because it is unknown which task crashed the process.
    await until(() => kit.query(letter).length > 0 || begun() > ATTEMPTS + 1).catch(() => {});
    await running.stop();
    if (kit.query(letter).length === 0) violations.push(`begun ${begun()} times, and no dead letter`);
    if ([...running.statuses.keys()].some((status) => status !== 204)) violations.push('deliveries were refused');
    await until(() => countsIn(join(kit.folder, 'events.db')).effects === running.acknowledged.size + 1).catch(() =>
      violations.push('its neighbours were not all handled'),
    );
    return {
      what: 'a handler that kills its process at each attempt',
      seen: `begun ${begun()} times with ${ATTEMPTS} attempts, ${running.acknowledged.size} neighbours handled`,
      violations,
    };
  } finally {
    await kit.remove();
  }
}
