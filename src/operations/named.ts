// Finds the handler or the event that a person names.
import { Refused } from './define.ts';
import { readFacts } from './store/facts.ts';
import type { PeopleStore } from './store/open.ts';
import { readEvent } from './store/read.ts';
import type { EventLine, HandlerFacts } from './store/shapes.ts';

export async function handlerNamed(db: PeopleStore, name: string): Promise<HandlerFacts> {
  const { handlers } = await readFacts(db);
  const found = handlers.find((one) => one.name === name);
  const names = handlers.map((one) => one.name).join(', ');
  if (!found) throw new Refused(`there is no handler ${name}: there are ${names || 'none'}`);
  return found;
}

export async function eventNamed(db: PeopleStore, name: string): Promise<EventLine> {
  const event = await readEvent(db, name);
  if (!event) throw new Refused(`no event has the key, id or cursor ${name}: see npx kit events`);
  return event;
}
