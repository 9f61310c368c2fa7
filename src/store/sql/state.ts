// The state role of the store: single values, of which some are JSON documents.
import { mergeHealth, mergeRefusals } from '../health.ts';
import type { Failures, KeptHealth, Refusal, Signer } from '../keep.ts';
import { isCursor, keptOf, type KeptState, type StateKey, type StateStore } from '../state.ts';
import type { Session } from './session.ts';

const HEALTH: StateKey[] = ['failure_run', 'failures', 'signers'];
const OWN: StateKey[] = [...HEALTH, 'refusals'];

export function createStateStore(session: Session): Omit<StateStore, 'note'> {
  const records = createRecords(session);

  async function get<Name extends keyof KeptState>(name: Name): Promise<KeptState[Name]> {
    if (name === 'refusals') {
      return mergeRefusals((await records.of(['refusals'])).map(toRefusals)) as KeptState[Name];
    }
    return keptOf(name, isCursor(name) ? await session.cursorState(name) : await session.state(name));
  }

  return {
    get,
    change: (name, change) =>
      session.write(async () => {
        const after = change(await get(name));
        await session.setState(name, JSON.stringify(after));
        return after;
      }, 'door'),
    books: () =>
      session.write(async () => {
        // An instance that starts goes on with the records of those that have ended.
        const living = new Set(await session.living());
        const ended = (await records.of(OWN)).filter(
          ({ instance }) => instance === session.instance() || !living.has(instance),
        );
        const health = mergeHealth(ended.map(toHealth));
        await records.forget(ended.map(({ instance }) => instance));
        await session.setState('failure_run', health.failureRun);
        await session.setState('failures', JSON.stringify(health.failures));
        await session.setState('signers', JSON.stringify(health.signers));
        await session.setState('refusals', JSON.stringify(mergeRefusals(ended.map(toRefusals))));
        return health;
      }, 'door'),
  };
}

/** The delivery health of all instances. */
export function createHealth(session: Session): () => Promise<KeptHealth> {
  const records = createRecords(session);
  return async () => mergeHealth((await records.of(HEALTH)).map(toHealth));
}

type StoredRecord = Record<string, unknown> & { instance: number };

function createRecords(session: Session) {
  const { oneOf } = session.dialect;
  const stored = session.statement<{ name: string; value: string | null }>(
    `select name, cast(value as text) as value from state where name ${oneOf('?', 'text')} or name like '%@%'`,
  );
  const remove = session.statement(`delete from state where name ${oneOf('?', 'text')}`);
  return {
    /** One record for each instance. The keys of instances end with `@` and their number. */
    async of(names: StateKey[]): Promise<StoredRecord[]> {
      const parts = (await stored.all(names)).flatMap(({ name, value }) => {
        const [key = '', of = '0'] = name.split('@');
        return (names as string[]).includes(key) ? [{ key, of: Number(of), value }] : [];
      });
      return [...Map.groupBy(parts, (part) => part.of)].map(([instance, group]) => ({
        ...Object.fromEntries(group.map(({ key, value }) => [key, JSON.parse(value ?? 'null') as unknown])),
        instance,
      }));
    },
    async forget(instances: number[]): Promise<void> {
      const names = instances.flatMap((n) => OWN.map((name) => (n === 0 ? name : `${name}@${n}`)));
      await remove.run(names);
    },
  };
}

function toRefusals({ refusals }: StoredRecord): Record<string, Refusal[]> {
  return (refusals ?? {}) as Record<string, Refusal[]>;
}

function toHealth(record: StoredRecord): Partial<KeptHealth> {
  const { failure_run: run, failures, signers } = record;
  return {
    failureRun: Number(run ?? 0),
    ...(failures ? { failures: failures as Failures } : {}),
    signers: (signers as Signer[] | null) ?? [],
  };
}
