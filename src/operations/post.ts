// Posts JSON to a URL, within ten seconds. It follows no redirect.

const LIMIT_MS = 10_000;

/** Null: the answer was a 2xx. Otherwise what went wrong, without the URL, which may be a secret. Never throws. */
export async function post(url: string, body: string | Buffer, headers: object = {}): Promise<string | null> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', ...headers },
      body: new Uint8Array(Buffer.from(body)),
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    await response.body?.cancel();
    return response.ok ? null : String(response.status);
  } catch (error) {
    const { name, cause } = error as Error & { cause?: { code?: string } };
    return cause?.code ?? name;
  }
}
