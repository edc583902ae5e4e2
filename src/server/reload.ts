import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { inspectLeaf, type InspectedLeaf } from '../identity/certificate.js';
import { readPem } from '../identity/pem.js';
import { type BundleProblem, readTrustBundles, type TrustBundles } from '../identity/trust-bundles.js';
import type { Listener, ServiceCertificate } from './listener.js';
import { RELOAD_INTERVAL_MS } from './limits.js';
import type { ServerLog } from './refusal-log.js';

/** Where the service's certificate, its key and the bundles are. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly bundlesDirectory: string;
}

/** What the files held, checked. */
export interface TlsMaterial {
  readonly certificate: ServiceCertificate;
  /** The service's own leaf; its SPIFFE ID is the audience of everything that is signed for the service. */
  readonly own: InspectedLeaf;
  readonly bundles: TrustBundles;
}

/** One or more files cannot be used. `problems` has all of them, each with the file's name. */
export class TlsFilesInvalid extends Error {
  override readonly name = 'TlsFilesInvalid';
  constructor(readonly problems: readonly string[]) {
    super(problems.join('; '));
  }
}

/**
 * Reads everything before the first handshake. At start a bad file stops the service; only later is there an
 * older one to keep.
 *
 * @param nowMicros microseconds since the epoch; undefined where no clock is known yet: nothing has expired then
 * @throws {TlsFilesInvalid} with every problem at once.
 */
export async function readTlsMaterial(files: TlsFiles, nowMicros?: bigint): Promise<TlsMaterial> {
  const problems: string[] = [];
  const own = await readServiceCertificate(files, nowMicros).catch((error: unknown) => {
    problems.push(...(error instanceof TlsFilesInvalid ? error.problems : [messageOf(error)]));
    return undefined;
  });
  const reading = await readTrustBundles(files.bundlesDirectory).catch((error: unknown) => {
    problems.push(`${files.bundlesDirectory}: ${messageOf(error)}`);
    return undefined;
  });
  problems.push(...(reading?.problems ?? []).map(describe));
  if (reading?.bundles.domains.length === 0)
    problems.push(`${files.bundlesDirectory}: no <trust-domain>.pem in it`);
  if (own === undefined || reading === undefined || problems.length > 0) throw new TlsFilesInvalid(problems);
  return { ...own, bundles: reading.bundles };
}

/** @param nowMicros microseconds since the epoch. @throws {TlsFilesInvalid} */
export function assertNotExpired(
  { own }: Pick<TlsMaterial, 'own'>,
  { certificateFile }: Pick<TlsFiles, 'certificateFile'>,
  nowMicros: bigint,
): void {
  if (nowMicros > own.notAfterMicros) throw new TlsFilesInvalid([`${certificateFile}: EXPIRED`]);
}

type OwnCertificate = Pick<TlsMaterial, 'certificate' | 'own'>;

async function readServiceCertificate(
  files: TlsFiles,
  nowMicros: bigint | undefined,
): Promise<OwnCertificate> {
  const both = await Promise.allSettled([readNamed(files.certificateFile), readNamed(files.keyFile)]);
  const [certificatePem, keyPem] = both.map((one) => (one.status === 'fulfilled' ? one.value : undefined));
  if (certificatePem === undefined || keyPem === undefined) {
    throw new TlsFilesInvalid(
      both.flatMap((one) => (one.status === 'rejected' ? (one.reason as TlsFilesInvalid).problems : [])),
    );
  }
  return checkServiceCertificate({ certificatePem, keyPem }, files, nowMicros);
}

async function readNamed(file: string): Promise<string> {
  try {
    return await readFile(file, 'latin1');
  } catch (error) {
    throw new TlsFilesInvalid([`${file}: ${messageOf(error)}`]);
  }
}

function checkServiceCertificate(
  certificate: ServiceCertificate,
  { certificateFile, keyFile }: TlsFiles,
  nowMicros: bigint | undefined,
): OwnCertificate {
  const [leafDer] = named(certificateFile, () => readPem(certificate.certificatePem, 'CERTIFICATE'));
  const own = named(certificateFile, () => inspectLeaf(leafDer ?? Buffer.alloc(0)));
  if (nowMicros !== undefined) assertNotExpired({ own }, { certificateFile }, nowMicros);
  const key = named(keyFile, () => createPrivateKey(certificate.keyPem));
  if (!new X509Certificate(leafDer ?? '').checkPrivateKey(key)) {
    throw new TlsFilesInvalid([`${keyFile}: is not the key of ${certificateFile}`]);
  }
  // What OpenSSL would refuse (a chain that does not parse) is found here, before a running listener gets it.
  named(certificateFile, () =>
    createSecureContext({ cert: certificate.certificatePem, key: certificate.keyPem }),
  );
  return { certificate, own };
}

function named<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new TlsFilesInvalid([`${file}: ${messageOf(error)}`]);
  }
}

export interface ReloadOptions {
  readonly files: TlsFiles;
  /** What was served since the start. */
  readonly initial: TlsMaterial;
  /** Every listener that serves it. */
  readonly listeners: readonly Listener[];
  readonly log: ServerLog;
  /** Microseconds since the epoch; the same clock as the listeners'. */
  readonly now: () => bigint;
  readonly intervalMs?: number;
}

/**
 * Reads the files again every few seconds and changes the listeners when their content did. Content is
 * compared, not times or events of the file system: mounted secrets change by renamed links, and some file
 * systems tell nobody.
 *
 * A bad file changes nothing and is logged once per kind of badness. Each round also ends connections whose
 * certificates have expired.
 */
export class Reloader {
  readonly #options: ReloadOptions;
  #certificate: ServiceCertificate;
  #bundles: TrustBundles;
  #reported = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(options: ReloadOptions) {
    this.#options = options;
    this.#certificate = options.initial.certificate;
    this.#bundles = options.initial.bundles;
  }

  /** Begins the rounds. They never keep the process alive. */
  start(): void {
    this.#timer = setTimeout(() => {
      void this.checkNow().finally(() => {
        if (!this.#stopped) this.start();
      });
    }, this.#options.intervalMs ?? RELOAD_INTERVAL_MS).unref();
  }

  /** One round now. Resolves when its changes are in force and open connections have been checked. */
  async checkNow(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
    this.#running = this.#round();
    try {
      await this.#running;
    } finally {
      this.#running = undefined;
    }
  }

  /** Ends the rounds; waits for one that is running. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #round(): Promise<void> {
    const problems = [...(await this.#reloadCertificate()), ...(await this.#reloadBundles())];
    this.#report(problems);
    for (const listener of this.#options.listeners) {
      const ended = listener.endExpired();
      if (ended > 0) this.#options.log.info({ ended }, 'ended connections whose certificates have expired');
    }
  }

  async #reloadCertificate(): Promise<readonly string[]> {
    const { files, initial, listeners, log, now } = this.#options;
    try {
      const { certificate, own } = await readServiceCertificate(files, now());
      if (isSame(certificate, this.#certificate)) return [];
      // Signed statements name the service; another name would silently orphan all of them.
      if (own.spiffeId !== initial.own.spiffeId) return [`${files.certificateFile}: names another SPIFFE ID`];
      for (const listener of listeners) listener.replaceCertificate(certificate);
      this.#certificate = certificate;
      log.info({ serial: own.serial }, 'serving another certificate');
      return [];
    } catch (error) {
      return error instanceof TlsFilesInvalid ? error.problems : [messageOf(error)];
    }
  }

  async #reloadBundles(): Promise<readonly string[]> {
    const { files, listeners, log } = this.#options;
    try {
      const { bundles, problems } = await readTrustBundles(files.bundlesDirectory, this.#bundles);
      if (bundles.fingerprint !== this.#bundles.fingerprint) {
        this.#bundles = bundles;
        for (const listener of listeners) {
          const ended = await listener.replaceBundles(bundles);
          log.info({ domains: bundles.domains, ended }, 'trusting other bundles');
        }
      }
      return problems.map(describe);
    } catch (error) {
      return [`${files.bundlesDirectory}: ${messageOf(error)}`];
    }
  }

  #report(problems: readonly string[]): void {
    for (const problem of problems) {
      if (!this.#reported.has(problem))
        this.#options.log.error({ problem }, 'a bad file: keeping what it said before');
    }
    this.#reported = new Set(problems);
  }
}

function isSame(one: ServiceCertificate, other: ServiceCertificate): boolean {
  return one.certificatePem === other.certificatePem && one.keyPem === other.keyPem;
}

function describe({ file, problem }: BundleProblem): string {
  return `${file}: ${problem}`;
}

/** A reason without OpenSSL's text, which may repeat what the file held. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return 'cannot be used';
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error.name === 'Error' ? 'cannot be used' : error.message;
}
