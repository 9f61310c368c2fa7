// Gives each test a schema of its own on the server of TEST_POSTGRES_URL.
import { createHash } from 'node:crypto';

const SERVER = process.env['TEST_POSTGRES_URL'] ?? '';

/** The address of the store that stands for this path: the same path is the same store. */
export function urlOf(path: string): string {
  const schema = `kit_${createHash('sha256').update(path).digest('hex').slice(0, 20)}`;
  // Tables of handlers stand beside the kit's, so that they are gone with the schema.
  return `${SERVER}?schema=${schema}&options=${encodeURIComponent(`-c search_path=${schema}`)}`;
}
