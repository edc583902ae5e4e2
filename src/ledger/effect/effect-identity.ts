import { canonicalDigest } from '../encoding.js';
import type { Digest } from '../types.js';

/** The identity of an effect (effects.md, Reserve 1): domain, event, sink and request digest. */
export function effectIdentity(input: {
  readonly domainId: string;
  readonly eventId: string;
  readonly sink: string;
  readonly requestDigest: Digest;
}): Digest {
  return canonicalDigest('surety-effect-identity-v1', [
    input.domainId,
    input.eventId,
    input.sink,
    input.requestDigest,
  ]);
}
