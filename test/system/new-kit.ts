// A kit that ends with its test.
import { onTestFinished } from 'vitest';
import { createKit, type Kit } from './kit.ts';

export async function newKit(...options: Parameters<typeof createKit>): Promise<Kit> {
  const kit = await createKit(...options);
  onTestFinished(() => kit.remove());
  return kit;
}
