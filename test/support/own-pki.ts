import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { inject } from 'vitest';
import { ensureDevelopmentCertificates } from '../../certs/development-certificates.js';
import { type CertificateLayout, bundleFile } from '../../certs/layout.js';
import { Channel } from '../../src/cli/client/service-client.js';
import { Authority, BundleFolder, type Certificate, type CertificateSpec } from './pki.js';
import type { ServiceProcess, ServiceSettings } from './service-process.js';

/** A connection of its own. */
export interface OwnConnection {
  readonly service: ServiceProcess;
  /** What it presents; undefined: nothing. */
  readonly certificate: Certificate | undefined;
  /** Certificates that it sends along. */
  readonly sent?: readonly Certificate[];
}

/**
 * TLS files of the test's own for a service: the development bundles and the development certificate, and beside each
 * domain's authority another one that issues whatever a test wants. The suite's files are shared; these may be changed.
 */
export class OwnPki {
  readonly surety = Authority.root('surety.test, of this test');
  readonly acme = Authority.root('acme.test, of this test');
  readonly globex = Authority.root('globex.test, of this test');
  /** Of a domain that the development set does not have. */
  readonly initech = Authority.root('initech.test, of this test');
  readonly bundles = new BundleFolder();
  private readonly folder = mkdtempSync(join(tmpdir(), 'surety-own-pki-'));
  private readonly channels: Channel[] = [];

  private constructor(private readonly layout: CertificateLayout) {
    writeFileSync(this.tls.cert, readFileSync(layout.service.cert));
    writeFileSync(this.tls.key, readFileSync(layout.service.key), { mode: 0o600 });
    this.trust('surety.test', this.surety).trust('acme.test', this.acme).trust('globex.test', this.globex);
    this.bundles.bundle('initech.test', this.initech);
  }

  static async create(): Promise<OwnPki> {
    return new OwnPki(await ensureDevelopmentCertificates({ directory: inject('certificatesDirectory') }));
  }

  /** What a service is started with. */
  get tls(): ServiceSettings['tls'] {
    const file = (name: string): string => join(this.folder, name);
    return { cert: file('service.crt'), key: file('service.key'), bundlesDir: this.bundles.path };
  }

  /** What a client trusts a service for: either of its authorities. */
  get roots(): Buffer {
    return Buffer.from(readFileSync(this.layout.serviceBundle, 'utf8') + this.surety.pem);
  }

  /** Writes the bundle of a development domain: its development authority, and these. */
  trust(domain: string, ...authorities: readonly Authority[]): this {
    const development = readFileSync(bundleFile(this.layout.bundlesDir, domain), 'utf8');
    this.bundles.file(`${domain}.pem`, development + authorities.map(({ pem }) => pem).join(''));
    return this;
  }

  /** Gives the service another certificate. */
  serve(certificate: Certificate): void {
    writeFileSync(this.tls.cert, certificate.pem);
    writeFileSync(this.tls.key, certificate.keyPem);
  }

  /** A certificate by the own authority of its trust domain; with only a SPIFFE ID it is one that every rule accepts. */
  leaf(spiffeId: string, spec: CertificateSpec = {}): Certificate {
    const domain = new URL(spiffeId).host;
    const authorities = [this.surety, this.acme, this.globex, this.initech];
    const authority = authorities.find(({ commonName }) => commonName.startsWith(`${domain},`));
    if (!authority) throw new Error(`no authority of ${domain}`);
    return authority.leaf(spiffeId, spec);
  }

  /** A connection that presents a certificate; closed at the end. */
  channel({ service, certificate, sent = [] }: OwnConnection): Channel {
    const shown = certificate && [certificate, ...sent].map(({ pem }) => pem).join('');
    const channel = new Channel(service.target, {
      ...(shown === undefined || certificate === undefined
        ? {}
        : { certificate: Buffer.from(shown), key: Buffer.from(certificate.keyPem) }),
      roots: this.roots,
    });
    this.channels.push(channel);
    return channel;
  }

  /** The serial number of the certificate that a service shows now. */
  serialOf({ target }: ServiceProcess): Promise<bigint> {
    const [host = '', port] = target.split(':');
    const options = {
      host,
      port: Number(port),
      servername: 'localhost',
      ca: this.roots,
      ALPNProtocols: ['h2'],
    };
    return new Promise((resolve, reject) => {
      const socket = connect(options, () => {
        resolve(BigInt(`0x${socket.getPeerCertificate().serialNumber}`));
        socket.destroy();
      });
      socket.on('error', reject);
    });
  }

  remove(): void {
    for (const channel of this.channels) channel.close();
    this.bundles.remove();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
