// The state role of the store: single values, of which some are JSON documents.
import { mergeHealth, mergeRefusals } from '../health.ts';
import type { Failures, KeptHealth, Refusal, Signer } from '../keep.ts';
import { isCursor, keptOf, type KeptState, type StateKey, type StateStore } from '../state.ts';
import type { Session } from './session.ts';

const HEALTH: StateKey[] = ['failure_run', 'failures', 'signers'];

export function createStateStore(session: Session): Omit<StateStore, 'note'> {
  const records = createRecords(session);

  async function get<Name extends keyof KeptState>(name: Name): Promise<KeptState[Name]> {
    if (name === 'refusals') {
      const all = await records.of(['refusals']);
      return mergeRefusals(all.map(({ refusals }) => refusals as Record<string, Refusal[]>)) as KeptState[Name];
    }
    return keptOf(name, isCursor(name) ? await session.cursorState(name) : await session.state(name));
  }

  return {
    get,
    books: () =>
      session.write(async () => {
        const living = new Set(await session.living());
        const gone = (await records.of(HEALTH)).filter(
          ({ instance }) => instance === session.instance() || !living.has(instance),
        );
        const health = mergeHealth(gone.map(toHealth));
        await records.forget(gone.flatMap(({ instance }) => (instance === session.instance() ? [] : [instance])));
        await session.setState('failure_run', health.failureRun);
        await session.setState('failures', JSON.stringify(health.failures));
        await session.setState('signers', JSON.stringify(health.signers));
        return health;
      }),
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
    `select name, cast(value as text) as value from state where name ${oneOf('@names', 'text')} or name like @first or name like @second or name like @third`,
  );
  const remove = session.statement(`delete from state where name ${oneOf('?', 'text')}`);
  return {
    /** One record for each instance. The keys of instances end with `@` and their number. */
    async of(names: StateKey[]): Promise<StoredRecord[]> {
      const [first, second = '', third = ''] = names.map((name) => `${name}@%`);
      const rows = await stored.all({ names, first, second, third });
      const parts = rows.map(({ name, value }) => ({
        key: name.split('@')[0] ?? '',
        of: Number(name.split('@')[1] ?? 0),
        value,
      }));
      return [...Map.groupBy(parts, (part) => part.of)].map(([instance, group]) => ({
        ...Object.fromEntries(group.map(({ key, value }) => [key, JSON.parse(value ?? 'null') as unknown])),
        instance,
      }));
    },
    async forget(instances: number[]): Promise<void> {
      const names = instances.flatMap((n) => HEALTH.map((name) => (n === 0 ? name : `${name}@${n}`)));
      if (names.length > 0) await remove.run(names);
    },
  };
}

function toHealth(record: StoredRecord): Partial<KeptHealth> {
  const { failure_run: run, failures, signers } = record;
  return {
    failureRun: Number(run ?? 0),
    ...(failures ? { failures: failures as Failures } : {}),
    signers: (signers as Signer[] | null) ?? [],
  };
}
