/** Something that the service is compared with, opened in a process of its own. */
export interface Peer {
  /**
   * One durable piece of work by the peer's own API for one piece.
   *
   * @param key of this piece alone
   * @returns once the peer says that it is done
   */
  runOnce(key: string): Promise<void>;
  /** How many are stored as done since it was opened: what callers counted is held against it. */
  countDone(): Promise<number>;
  /** Processor time so far of further processes of the peer, in milliseconds; undefined: it cannot be read. */
  processorMs?(): Readonly<Record<string, number | undefined>>;
}
