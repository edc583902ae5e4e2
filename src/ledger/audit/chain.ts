import { sha256 } from '../encoding.js';
import type { Digest } from '../types.js';

const LEAF_PREFIX = Buffer.from([0x00]);
const CHAIN_PREFIX = Buffer.from([0x02]);
const GENESIS_LABEL = Buffer.from('surety-audit-v1\0', 'utf8');

/** The chain hash before the first entry of a domain (provenance-audit-replay.md, Audit). */
export function genesisHash(domainId: string): Digest {
  return sha256(Buffer.concat([GENESIS_LABEL, Buffer.from(domainId, 'utf8')]));
}

/** RFC 6962, 2.1: the hash of a leaf, over the serialized entry. */
export function leafHash(entry: Uint8Array): Digest {
  return sha256(Buffer.concat([LEAF_PREFIX, entry]));
}

/** Links a leaf to all before it. */
export function chainHash(previous: Uint8Array, leaf: Uint8Array): Digest {
  return sha256(Buffer.concat([CHAIN_PREFIX, previous, leaf]));
}
