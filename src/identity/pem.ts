/** The text is not PEM of the kind that was expected. The message names no content of the file. */
export class PemInvalid extends Error {
  override readonly name = 'PemInvalid';
}

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+?)-----END \1-----/g;
const BEGIN = /-----BEGIN /g;

/**
 * The DER of every block in a PEM text. Text between blocks is allowed (tools print names there), another
 * label is not: a private key in a bundle's file is a mistake to hear about, not to skip.
 *
 * @param label for example `CERTIFICATE` or `X509 CRL`.
 * @throws {PemInvalid} also when there is no block at all, as in a file cut short.
 */
export function readPem(text: string, label: string): Buffer[] {
  const blocks = [...text.matchAll(BLOCK)];
  const begun = [...text.matchAll(BEGIN)].length;
  if (begun === 0) throw new PemInvalid(`no ${label} in it`);
  if (blocks.length !== begun) throw new PemInvalid('a block is cut short or not base64');
  return blocks.map(([, found, body = '']) => {
    if (found !== label) throw new PemInvalid(`${found} where only ${label} may be`);
    const base64 = body.replace(/[\r\n]/g, '');
    const der = Buffer.from(base64, 'base64');
    if (der.length === 0 || der.toString('base64') !== base64) throw new PemInvalid('not base64');
    return der;
  });
}

/** One PEM block, 64 characters a line. */
export function writePem(der: Uint8Array, label: string): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}
