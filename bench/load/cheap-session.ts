import { sign } from 'node:crypto';
import { type StatementOverrides, WorkloadSession } from '../../src/cli/client/workload-session.js';
import type { Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { protectedHeader } from '../../src/identity/jws.js';
import { SIGNED_MESSAGES } from '../../src/identity/signed-messages.js';

/**
 * Signs as a client would that counts its processor time: by node:crypto in the thread that asks. The same token as
 * `signBytes` makes; going to another thread and back costs more than the signature.
 */
export class CheapSession extends WorkloadSession {
  private readonly header = Buffer.from(
    JSON.stringify(protectedHeader(SIGNED_MESSAGES.transition, this.key.publicKey.thumbprint)),
  ).toString('base64url');
  private readonly signer = { key: this.key.privateKey, dsaEncoding: 'ieee-p1363' } as const;

  override sign(
    effect: Effect,
    from: EffectState,
    to: EffectState,
    evidence: Uint8Array,
    overrides: StatementOverrides = {},
  ): Promise<string> {
    const payload = Buffer.from(this.statement(effect, from, to, evidence, overrides)).toString('base64url');
    const signed = `${this.header}.${payload}`;
    const signature = sign('sha256', Buffer.from(signed, 'latin1'), this.signer).toString('base64url');
    return Promise.resolve(`${signed}.${signature}`);
  }
}
