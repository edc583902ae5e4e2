const HASH_BYTES = 32;
/** A mebibyte of them at a time. */
const HASHES_PER_CHUNK = 32_768;

/** The chain hashes of a log from its first entry on, by position: 32 bytes each, since a log has millions of them. */
export class ChainHashes {
  private readonly chunks: Buffer[] = [];
  private count = 0;

  /** Takes the next one; what stands behind a gap, or is none, is left out. */
  add(seq: bigint, chainHash: Uint8Array): void {
    if (seq !== BigInt(this.count) + 1n || chainHash.length !== HASH_BYTES) return;
    const at = this.count % HASHES_PER_CHUNK;
    if (at === 0) this.chunks.push(Buffer.alloc(HASHES_PER_CHUNK * HASH_BYTES));
    this.chunks.at(-1)?.set(chainHash, at * HASH_BYTES);
    this.count += 1;
  }

  /** Undefined where none was taken. */
  at(seq: bigint): Buffer | undefined {
    if (seq < 1n || seq > BigInt(this.count)) return undefined;
    const index = Number(seq) - 1;
    const at = (index % HASHES_PER_CHUNK) * HASH_BYTES;
    return this.chunks[Math.floor(index / HASHES_PER_CHUNK)]?.subarray(at, at + HASH_BYTES);
  }
}
