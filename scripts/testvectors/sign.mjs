import { deriveKey, signDeterministically, toDer } from './ecdsa.mjs';

export const executor = deriveKey('executor');
export const reconciler = deriveKey('reconciler');
export const operator = deriveKey('operator');
export const owner = deriveKey('owner');
export const KEYS = [executor, reconciler, operator, owner];

export const base64url = (bytes) => Buffer.from(bytes).toString('base64url');

const MESSAGES = {
  transition: 'surety.effect.v1.TransitionStatement',
  possession: 'surety.identity.v1.PossessionStatement',
  renewal: 'surety.identity.v1.PossessionStatement',
  command: 'surety.authority.v1.AdminCommand',
  clearance: 'surety.provenance.v1.ClearanceStatement',
  'bounded-grant': 'surety.action.v1.BoundedGrantStatement',
};
export const PAYLOAD_TYPE = 'application/vnd.surety.effect.v1.transition+protobuf';

/** What an owner signs to approve is JSON, and no message. */
const contentType = (kind) =>
  kind === 'approval' ? 'application/json' : `application/x-protobuf; messageType="${MESSAGES[kind]}"`;

/** The protected header of a kind of message. */
export const headerOf = (kind, key) => ({
  alg: 'ES256',
  typ: `surety-${kind}+jws`,
  cty: contentType(kind),
  kid: key.thumbprint,
});

/** The three segments of a token, the header as the text that is given. */
export function segments(headerText, payload, key) {
  const signed = `${base64url(headerText)}.${base64url(payload)}`;
  const [header, body] = signed.split('.');
  return { header, payload: body, signature: signDeterministically(Buffer.from(signed), key) };
}

export const join = ({ header, payload, signature }) => `${header}.${payload}.${base64url(signature)}`;

/** A token as a good client makes it. */
export const token = (kind, payload, key) =>
  join(segments(JSON.stringify(headerOf(kind, key)), payload, key));

/** DSSE's pre-authentication encoding. */
export const encodePae = (type, payload) =>
  Buffer.concat([Buffer.from(`DSSEv1 ${Buffer.byteLength(type)} ${type} ${payload.length} `), payload]);

/** r and s over an envelope's payload. */
export const signEnvelope = (payload, key, type = PAYLOAD_TYPE) =>
  signDeterministically(encodePae(type, payload), key);

export const der = toDer;
