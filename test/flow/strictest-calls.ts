// Calls that the service refuses on the strictest day: beyond the rights and the rate of the key, unpaid, or at fault.
import { ServiceError } from '../../src/service/errors.ts';
import type { Service } from '../../src/service/service.ts';
import type { FaultName } from '../../src/tools/simulator/faults.ts';
import type { Key } from '../../src/tools/simulator/keys.ts';
import type { SimulatedService } from '../../src/tools/simulator/service.ts';

/** The words of the error with which the service refuses this call. */
export async function refusalOf(calling: Promise<unknown>): Promise<string> {
  return calling.then(
    () => 'not refused',
    (error: unknown) => {
      if (!(error instanceof ServiceError)) throw error;
      return `${error.message}${error.uncertain ? ', uncertain' : ''}`;
    },
  );
}

export async function makeCalls(client: Service, { keys, history }: SimulatedService, key: Key): Promise<string[]> {
  const [, , foreign = ''] = history.numbers;
  // All calls end before the clock advances, so that none counts in the next minute.
  const burst = async (count: number): Promise<void> => {
    const calling = Array.from({ length: count }, () => client.call('GetApiKeyIdentity', {}));
    await Promise.allSettled(calling);
    await Promise.all(calling);
  };
  const errors = [
    await refusalOf(client.call('ListCampaigns', {})),
    await refusalOf(client.call('ListNothing', {})),
    await refusalOf(client.call('ListMessages', { session_id: foreign })),
    await refusalOf(client.call('ReplayEvents', { after_cursor: '1' })),
    await refusalOf(client.call('ReplayEvents', { limit: 0 })),
    await refusalOf(client.call('ReplayEvents', { afterCursor: '1' })),
  ];
  keys.edit(key, { perMinute: 1 });
  errors.push(await refusalOf(burst(2)));
  keys.edit(key, { perMinute: undefined });
  errors.push(await refusalOf(burst(121)));
  return errors;
}

export async function makePaidCalls(client: Service, { billing, chaos, history }: SimulatedService): Promise<string[]> {
  const [first = ''] = history.numbers;
  const message = { session_id: first, to: '15550101', body: 'hello' };
  const quote = async (): Promise<string> => (await client.quote('messages/send', message)).quoteId;
  const errors = [await refusalOf(client.send(message, { quoteId: '' }))];
  const expired = await quote();
  billing.expire();
  errors.push(await refusalOf(client.send(message, { quoteId: expired })));
  billing.balance(0);
  errors.push(await refusalOf(client.send(message, { quoteId: await quote() })));
  billing.balance(100);
  const faults: FaultName[] = ['500', '503', 'uncertain-sent', '504', 'proxy-502', 'too-large'];
  for (const fault of faults) {
    const quoteId = await quote();
    chaos.next(fault);
    const error = await refusalOf(client.send(message, { quoteId }));
    if (chaos.fault()) throw new Error(`${fault} was not used, because the call failed: ${error}`);
    errors.push(error);
  }
  return errors;
}
