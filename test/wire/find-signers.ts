import { startHashes } from '../../src/wire/signature.ts';

/** The positions of the secrets that signed a body, which arrives in two parts. */
export function findSigners(secrets: string[], timestamp: number, body: Buffer, signatures: Buffer[]): number[] {
  const hashes = startHashes(secrets, timestamp);
  const half = body.length >> 1;
  for (const part of [body.subarray(0, half), body.subarray(half)]) hashes.update(part);
  return hashes.signers(signatures);
}
