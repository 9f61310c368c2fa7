// Distinguishes errors of the server and the connection, which may pass, from errors that a statement or its values cause.
import { StoreError } from '../store.ts';

/** The code for a server that would confirm commits before they are on disk. */
export const UNSYNCED = 'synchronous_commit';
/** Another transaction was in the way: a deadlock, a lock that took too long, or a statement that took too long. */
const BUSY = new Set(['40001', '40P01', '55P03', '57014']);
/** Classes of errors that values of a statement cause: data, constraints, syntax, a failed transaction. */
const OF_STATEMENTS = /^((?!25006|25P03)2[1-7]|3[9BFZ]|42(?!501)|44|0[2-7A-LPZ]|P0|21|54)/;

/** Codes of a server that starts, stops, is full of connections or read-only, or cannot be reached. */
const PASSING = /^(08|53300|57P|25006|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOST|ENET|EPIPE)/;

/** The code of an error of PostgreSQL, five characters; of the system, for example ECONNRESET; or undefined. */
export function sqlState(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
}

/** Undefined: another error, for example one that the values of a statement cause. */
export function faultOf(error: unknown, store: string): StoreError | undefined {
  if (error instanceof StoreError) return error;
  const code = sqlState(error);
  if (code === '22P02' && (error as Error).message.includes('"not leading"'))
    return new StoreError('standby', `${store}: another instance of the kit leads; see npx kit instances`, error);
  if (code !== undefined && BUSY.has(code))
    return new StoreError(
      'busy',
      `${store} is busy (${code}): another transaction is in the way; it will be tried again, see pg_stat_activity`,
      error,
    );
  if (code !== undefined && /^[0-9A-Z]{5}$/.test(code) && OF_STATEMENTS.test(code)) return undefined;
  // The server's words name the missing right, the user or the database, and hold no value.
  const words = /^28|3D000|42501/.test(code ?? '') ? `, ${(error as Error).message}` : '';
  if (code !== undefined)
    return away(`${store} cannot be used: ${code}${words}. ${remedyOf(code)}`, error, PASSING.test(code));
  // The driver's own errors have no code: the connection ended, or a timeout.
  if (
    error instanceof Error &&
    /^(Connection terminated|Client (has encountered|was closed)|Query read timeout|timeout e)/.test(error.message)
  )
    return away(`${store} cannot be used: the connection ended. ${remedyOf('08006')}`, error, true);
  if (error instanceof Error && /SASL|SSL/.test(error.message))
    return away(
      `${store} cannot be used: ${error.message}. ${remedyOf(/SSL/.test(error.message) ? 'SSL' : '28P01')}`,
      error,
      false,
    );
  return undefined;
}

function away(message: string, cause: unknown, passes: boolean): StoreError {
  return new StoreError('unwritable', message, cause, passes);
}

/** The remedy for a code of PostgreSQL or the system. */
export function remedyOf(code: string): string {
  if (code === '53100') return 'The disk of the server is full: make room there';
  if (code === '53300')
    return 'The server has no connection left: raise max_connections or the connection limit of this user, or end other clients';
  if (code === '25006') return 'The server is read-only, perhaps a standby: point DATABASE_URL to the primary';
  if (/^28|3D000/.test(code)) return 'See user, password and database in DATABASE_URL';
  if (code === '42501')
    return 'Grant this user create on the database for the first start, and all rights on the schema kit and its tables';
  if (code === UNSYNCED)
    return 'Take back synchronous_commit = off (alter role … reset synchronous_commit, alter database … reset synchronous_commit)';
  if (/SSL|CERT|TLS/.test(code))
    return 'See sslmode and sslrootcert in DATABASE_URL, and the certificate of the server';
  if (/^57P0/.test(code)) return 'The server stops or starts: it will be tried again';
  return 'See that the server runs and can be reached (DATABASE_URL)';
}
