// Writes and verifies one backup, in a process of its own: SQLite works on it for minutes without a break, and a kit
// that stops must not wait for that.
import { setPriority } from 'node:os';
import { describe } from '../base/errors.ts';
import { endWithOwner } from '../processes/channel.ts';
import { copyVerified } from '../store/sqlite/admin/backup.ts';

const LOWEST = 19;

endWithOwner();
setPriority(LOWEST);
const [path = '', to = ''] = process.argv.slice(2);
process.send?.(outcome(), () => process.exit());

function outcome(): { bytes: number } | { fault: string } {
  try {
    return { bytes: copyVerified(path, to) };
  } catch (error) {
    return { fault: describe(error).message };
  }
}
