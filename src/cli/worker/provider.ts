/** Why nothing is known after a request to the provider. */
export type Doubt =
  /** No answer came in time. */
  | 'timeout'
  /** The connection could not be made, or broke. */
  | 'disconnected'
  /** What came is not an answer of the provider's, or not about this request. */
  | 'unreadable'
  /** The provider works on it. */
  | 'pending'
  /** The provider has never heard of it, which a request that is still under way explains too. */
  | 'unknown';

/** What the provider said of one execution digest. */
export type ProviderAnswer =
  | {
      readonly is: 'done';
      /** The provider's id of what it did. */
      readonly id: string;
      /** SHA-256 of the answer, 32 bytes. */
      readonly answerDigest: Uint8Array<ArrayBuffer>;
    }
  | {
      /** It did not happen, and will not. */
      readonly is: 'refused';
      readonly id: string;
      readonly answerDigest: Uint8Array<ArrayBuffer>;
      /** The provider would take another try: recorded, and never honoured (actions.md, I10). */
      readonly retryable: boolean;
    }
  | { readonly is: 'doubt'; readonly why: Doubt };

/** What became of a request that was to be sent. `not_sent`: no octet of it left this process, and none will. */
export type SendAnswer = ProviderAnswer | { readonly is: 'not_sent' };

/**
 * The outside system, as a worker meets it. Neither method throws: what goes wrong on the way is doubt. Both take until when, in
 * milliseconds on the worker's monotonic clock: a duration would begin anew wherever something is waited for.
 */
export interface Provider {
  /**
   * Sends a request, once: whatever becomes of it, nothing is sent again. Until `untilMs` it is sent and its answer waited for;
   * the clock is looked at when the connection stands, and nothing is sent after.
   */
  send(body: Buffer, executionDigest: Uint8Array, untilMs: number): Promise<SendAnswer>;
  /** Asks what became of a request; changes nothing. */
  read(executionDigest: Uint8Array, untilMs: number): Promise<ProviderAnswer>;
}
