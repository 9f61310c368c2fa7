// Faults in the address of a PostgreSQL server. Their texts never hold the address, because a password is in it.

/** The kit's own parameter, `schema`, and those of the driver. */
const PARAMETERS = new Set(
  `schema options application_name connect_timeout client_encoding keepalives sslmode sslrootcert sslcert sslkey
   sslnegotiation uselibpqcompat`.split(/\s+/),
);

/** Undefined: it has none, or it is no address of a server. */
export function faultOfServer(address: string): string | undefined {
  if (!address.startsWith('postgres')) return undefined;
  const url = URL.parse(address);
  if (!url || url.hostname === '' || url.hash !== '')
    return 'is no address of a server: write @ # / ? % in the password as %40 %23 %2F %3F %25';
  // A name with a typing error would be ignored, and may mean another store.
  const unknown = [...url.searchParams.keys()].filter((name) => !PARAMETERS.has(name));
  if (unknown.length > 0) return `has parameters that mean nothing here: ${unknown.join(', ').slice(0, 100)}`;
  if (!/^[a-z_][a-z0-9_]{0,50}$/.test(url.searchParams.get('schema') ?? 'kit'))
    return 'must name a schema of lower-case letters, digits and _';
  return undefined;
}
