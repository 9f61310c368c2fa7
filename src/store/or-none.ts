import { StoreError } from './store.ts';

/** The result, or undefined if the store cannot be used now. Other errors are thrown. */
export async function orNone<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
}
