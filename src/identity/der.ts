import forge from 'node-forge';

/** One decoded element. Primitive values are strings of bytes (one char code per byte), as node-forge has it. */
export type DerNode = forge.asn1.Asn1;

/** The bytes are not the DER that was expected. Callers turn it into the error of what they were reading. */
export class DerInvalid extends Error {
  override readonly name = 'DerInvalid';
}

const { Class, Type } = forge.asn1;

/** The published types know only the older second parameter. node-forge would guess at bit strings' contents. */
const fromDer = forge.asn1.fromDer as unknown as (
  bytes: forge.util.ByteBuffer,
  options: { parseAllBytes: boolean; decodeBitStrings: boolean },
) => DerNode;

/** Tags of universal elements that X.509 uses here. */
export const Tag = {
  boolean: Type.BOOLEAN,
  integer: Type.INTEGER,
  bitString: Type.BITSTRING,
  octetString: Type.OCTETSTRING,
  oid: Type.OID,
  sequence: Type.SEQUENCE,
  utcTime: Type.UTCTIME,
  generalizedTime: Type.GENERALIZEDTIME,
} as const;

/**
 * Decodes one DER element that fills `bytes`.
 *
 * The result must encode to the same bytes again. OpenSSL reads more than DER allows; whatever two readers
 * could understand differently is thereby refused before anything is decided on it.
 *
 * @throws {DerInvalid}
 */
export function readDer(bytes: Uint8Array): DerNode {
  const binary = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  let node: DerNode;
  let encoded: string;
  try {
    node = fromDer(forge.util.createBuffer(binary), { parseAllBytes: true, decodeBitStrings: false });
    encoded = forge.asn1.toDer(node).getBytes();
  } catch {
    throw new DerInvalid('not DER');
  }
  if (encoded !== binary) throw new DerInvalid('not DER');
  return node;
}

/** The DER of a node that {@link readDer} returned: the very bytes it was read from. */
export function derOf(node: DerNode): Buffer {
  return Buffer.from(forge.asn1.toDer(node).getBytes(), 'latin1');
}

/** Whether `node` is the universal element `tag`. */
export function isUniversal(node: DerNode | undefined, tag: number): node is DerNode {
  return node !== undefined && node.tagClass === Class.UNIVERSAL && node.type === tag;
}

/** Whether `node` is the context-specific element `[tag]`. */
export function isContext(node: DerNode | undefined, tag: number): node is DerNode {
  return node !== undefined && node.tagClass === Class.CONTEXT_SPECIFIC && (node.type as number) === tag;
}

/** The elements of a constructed node. @throws {DerInvalid} */
export function elementsOf(node: DerNode | undefined): DerNode[] {
  if (node === undefined || !Array.isArray(node.value)) throw new DerInvalid('constructed element expected');
  return node.value;
}

/** The elements of a SEQUENCE. @throws {DerInvalid} */
export function sequenceOf(node: DerNode | undefined): DerNode[] {
  if (!isUniversal(node, Tag.sequence)) throw new DerInvalid('SEQUENCE expected');
  return elementsOf(node);
}

/** The content bytes of a primitive node. @throws {DerInvalid} */
export function bytesOf(node: DerNode | undefined): Buffer {
  if (node === undefined || typeof node.value !== 'string')
    throw new DerInvalid('primitive element expected');
  return Buffer.from(node.value, 'latin1');
}

/** The content bytes of the universal primitive `tag`. @throws {DerInvalid} */
export function primitiveOf(node: DerNode | undefined, tag: number): Buffer {
  if (!isUniversal(node, tag)) throw new DerInvalid('other element expected');
  return bytesOf(node);
}

/** The bytes of a BIT STRING that has no unused bits (signatures, keys). @throws {DerInvalid} */
export function wholeBitString(node: DerNode | undefined): Buffer {
  const content = primitiveOf(node, Tag.bitString);
  if (content[0] !== 0) throw new DerInvalid('BIT STRING with unused bits');
  return content.subarray(1);
}

/** An OBJECT IDENTIFIER in dotted form. @throws {DerInvalid} */
export function oidOf(node: DerNode | undefined): string {
  const content = primitiveOf(node, Tag.oid);
  if (content.length === 0) throw new DerInvalid('empty OID');
  return forge.asn1.derToOid(forge.util.createBuffer(content.toString('latin1')));
}

/** A DER BOOLEAN. @throws {DerInvalid} for anything but 00 and FF. */
export function booleanOf(node: DerNode | undefined): boolean {
  const content = primitiveOf(node, Tag.boolean);
  if (content.length !== 1 || (content[0] !== 0 && content[0] !== 0xff))
    throw new DerInvalid('not a BOOLEAN');
  return content[0] === 0xff;
}

/** A small non-negative INTEGER (path lengths, versions). @throws {DerInvalid} */
export function smallIntegerOf(node: DerNode | undefined): number {
  const content = primitiveOf(node, Tag.integer);
  const first = content[0];
  if (first === undefined || first > 0x7f || content.length > 4) throw new DerInvalid('INTEGER out of range');
  return content.readUIntBE(0, content.length);
}

const UTC_TIME = /^(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z$/;
const GENERALIZED_TIME = /^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z$/;

/**
 * A Time of RFC 5280 (4.1.2.5) in microseconds since the epoch: seconds present, in Zulu, no fractions.
 *
 * @throws {DerInvalid} also for dates that no calendar has.
 */
export function timeOf(node: DerNode | undefined): bigint {
  const utc = isUniversal(node, Tag.utcTime);
  const text = primitiveOf(node, utc ? Tag.utcTime : Tag.generalizedTime).toString('latin1');
  const match = (utc ? UTC_TIME : GENERALIZED_TIME).exec(text);
  if (match === null) throw new DerInvalid('not a time');
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1).map(Number);
  // RFC 5280: two-digit years from 50 on belong to the twentieth century.
  const fullYear = utc ? (year >= 50 ? 1900 : 2000) + year : year;
  const date = new Date(0);
  date.setUTCFullYear(fullYear, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const exists = date.getUTCMonth() === month - 1 && date.getUTCDate() === day && date.getUTCHours() === hour;
  if (!exists || minute > 59 || second > 59) throw new DerInvalid('not a time');
  return BigInt(date.getTime()) * 1000n;
}

/** One X.509 extension. `value` is the content of its OCTET STRING. */
export interface Extension {
  readonly critical: boolean;
  readonly value: Buffer;
}

/** An extension appears twice: readers disagree about which one counts (RFC 5280, 4.2 forbids it). */
export class DuplicateExtension extends DerInvalid {}

/**
 * Extensions by dotted OID, from an `Extensions` SEQUENCE of a certificate, a CRL or a CRL entry.
 *
 * @throws {DuplicateExtension}
 * @throws {DerInvalid}
 */
export function extensionsOf(node: DerNode | undefined): ReadonlyMap<string, Extension> {
  const extensions = new Map<string, Extension>();
  for (const element of sequenceOf(node)) {
    const parts = sequenceOf(element);
    const oid = oidOf(parts[0]);
    const hasCritical = isUniversal(parts[1], Tag.boolean);
    const value = primitiveOf(parts[hasCritical ? 2 : 1], Tag.octetString);
    if (parts.length !== (hasCritical ? 3 : 2)) throw new DerInvalid('extension with more than three parts');
    if (extensions.has(oid)) throw new DuplicateExtension('extension given twice');
    extensions.set(oid, { critical: hasCritical && booleanOf(parts[1]), value });
  }
  return extensions;
}
