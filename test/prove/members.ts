// The campaign `members`: three instances on one PostgreSQL server, under load. Instances and their processes are killed,
// stopped and cut off at random moments, also while another one takes over.
import { hasServer, startServer } from '../postgres/server.ts';
import { createScene } from './members/scene.ts';
import { createTrouble } from './members/trouble.ts';
import { judge } from './members/judge.ts';
import { MissingTool, type Options, type Report } from './report.ts';

const INSTANCES = 3;
const ACTIONS = { short: 10, long: 500 };
const A_SECOND = { short: 50, long: 200 };

export async function campaign({ seed, short, progress }: Options): Promise<Report> {
  if (!hasServer()) throw new MissingTool('A PostgreSQL server is missing: npm run test:postgres installs one.');
  const size = short ? 'short' : 'long';
  const server = await startServer(['fsync=on', 'full_page_writes=on']);
  const scene = await createScene(server, INSTANCES);
  try {
    const trouble = createTrouble(scene, seed);
    const load = scene.load(A_SECOND[size]);
    for (let done = 1; done <= ACTIONS[size]; done++) {
      await trouble.next();
      if (done % 10 === 0)
        progress(`${done} of ${ACTIONS[size]} actions, ${load.acknowledged.size} deliveries acknowledged`);
    }
    await trouble.heal();
    await load.stop();
    progress('waiting until everything is handled');
    return { title: 'Several instances', rows: await judge(scene, load, trouble.troubles, progress) };
  } finally {
    await scene.remove();
    await server.stop();
  }
}
