import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type DevelopmentCertificates,
  ensureDevelopmentCertificates,
} from '../../certs/development-certificates.js';
import {
  type Configuration,
  ConfigurationInvalid,
  readConfiguration,
} from '../../src/config/configuration.js';
import { databasePlace } from '../../src/config/database-place.js';
import { variablesTable } from '../../src/config/document.js';
import { forgetPostgresVariables } from '../../src/config/environment.js';
import { VARIABLES } from '../../src/config/variables.js';

let folder: string;
let serving: Record<string, string>;
let certificates: DevelopmentCertificates;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'surety-config-'));
  const file = (name: string, content = ''): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  certificates = await ensureDevelopmentCertificates({ directory: join(folder, 'certs') });
  serving = {
    SURETY_TLS_CERT_FILE: certificates.service.cert,
    SURETY_TLS_KEY_FILE: certificates.service.key,
    SURETY_BUNDLES_DIR: certificates.bundlesDir,
    SURETY_DATABASE_URL_FILE: file('url', 'postgres://surety:s3cret@db:5432/surety\n'),
  };
});
afterAll(() => rmSync(folder, { recursive: true }));

type Environment = Record<string, string | undefined>;

function mistakes(
  environment: Environment,
  command: 'serve' | 'start' | 'migrate' = 'start',
): readonly string[] {
  try {
    readConfiguration(environment, command);
  } catch (error) {
    if (error instanceof ConfigurationInvalid) return error.mistakes;
    throw error;
  }
  return [];
}

describe('the configuration', () => {
  it('needs nothing to start for development', () => {
    const configuration = readConfiguration({ HOME: '/root' }, 'start');
    expect(configuration).toMatchObject({
      listen: { host: '127.0.0.1', port: 7480 },
      adminListen: { host: '127.0.0.1', port: 7482 },
      tls: undefined,
      databaseUrl: undefined,
      testClock: false,
      reflection: false,
      stateDir: '.surety',
    } satisfies Partial<Configuration>);
  });

  it('is read whole, secrets from files without their last line break, and then stays as it is', () => {
    const configuration = readConfiguration(
      { ...serving, SURETY_LISTEN: '[::1]:0', SURETY_TEST_CLOCK: '1', SURETY_FAULT: 'before-commit:crash' },
      'serve',
    );
    expect(configuration).toMatchObject({
      listen: { host: '::1', port: 0 },
      databaseUrl: 'postgres://surety:s3cret@db:5432/surety',
      testClock: true,
      fault: { seam: 'before-commit', action: 'crash' },
    });
    expect(Object.isFrozen(configuration) && Object.isFrozen(configuration.listen)).toBe(true);
  });

  it('says every mistake at once, each with its variable', () => {
    const found = mistakes(
      {
        SURETY_LISTEN: 'everywhere',
        SURETY_ADMIN_LISTEN: '0.0.0.0:7482',
        SURETY_QUEUE_LIMIT: '0',
        SURETY_POOL_SIZE: '8.5',
        SURETY_TEST_CLOCK: 'yes',
        SURETY_FAULT: 'commit:explode',
        SURETY_LOG_LEVEL: 'loud',
        SURETY_DATABASE_URL: 'mysql://u:hunter2@h/d',
        SURETY_TLS_KEY_FILE: join(folder, 'absent.key'),
        SURETY_BUNDLES_DIR: join(folder, 'url'),
        SURETY_LISTN: '1',
      },
      'serve',
    );
    const names = [
      'SURETY_LISTN',
      'SURETY_LISTEN',
      'SURETY_ADMIN_LISTEN',
      'SURETY_DATABASE_URL',
      'SURETY_POOL_SIZE',
      'SURETY_QUEUE_LIMIT',
      'SURETY_LOG_LEVEL',
      'SURETY_TEST_CLOCK',
      'SURETY_FAULT',
      'SURETY_TLS_CERT_FILE',
      'SURETY_TLS_KEY_FILE',
      'SURETY_BUNDLES_DIR',
    ];
    expect(found.map((mistake) => mistake.split(':')[0])).toEqual(names);
    expect(found[0]).toContain('SURETY_LISTEN is the nearest');
    expect(found.join()).toContain('SURETY_LISTEN: must be host:port');
    expect(found.join()).not.toContain('hunter2');
  });

  it.each([
    ['SURETY_LISTEN', ['::1:7480', '[127.0.0.1]:1', 'a b:1', 'host:', ':1', 'host:65536', 'host:-1', '']],
    ['SURETY_ADMIN_LISTEN', ['10.0.0.1:1', '[::]:1', 'example.test:1']],
    ['SURETY_BATCH_LIMIT', ['', '-1', '1e2', '0x10', '99999999999999999999', ' 1', '1001']],
    ['SURETY_DATABASE_URL', ['postgres://host', 'postgres://u@/d', 'postgres://h/d', 'host=h dbname=d', '']],
    ['SURETY_STATE_DIR', ['']],
  ])('refuses %s of %j', (name, texts) => {
    for (const text of texts) expect(mistakes({ [name]: text }), text).toHaveLength(1);
  });

  it.each([
    ['SURETY_LISTEN', ['localhost:0', '0.0.0.0:65535', '[fe80::1]:7480', 'surety.internal:1']],
    ['SURETY_ADMIN_LISTEN', ['127.9.9.9:1', '[::1]:1', 'localhost:1']],
    ['SURETY_DATABASE_URL', ['postgresql://u:p%40@h:5/d?sslmode=verify-full', 'postgres://u@[::1]/d']],
  ])('takes %s of %j', (name, texts) => {
    for (const text of texts) expect(mistakes({ [name]: text }), text).toEqual([]);
  });

  it('refuses a secret that is given twice, or whose file is not there', () => {
    const url = 'postgres://u:p@h/d';
    const twice = { SURETY_MIGRATION_URL: url, SURETY_MIGRATION_URL_FILE: join(folder, 'url') };
    expect(mistakes(twice)).toEqual(['SURETY_MIGRATION_URL: is set, and SURETY_MIGRATION_URL_FILE as well']);
    expect(mistakes({ SURETY_MIGRATION_URL_FILE: '/absent' })).toEqual([
      'SURETY_MIGRATION_URL_FILE: ENOENT /absent',
    ]);
    // What is no secret has no such file.
    expect(mistakes({ SURETY_LISTEN_FILE: '/x' })[0]).toMatch(
      /^SURETY_LISTEN_FILE: there is no such variable/,
    );
  });

  it('wants all of the three TLS files or none', () => {
    const { SURETY_TLS_CERT_FILE } = serving;
    expect(mistakes({ SURETY_TLS_CERT_FILE })).toEqual([
      'SURETY_TLS_KEY_FILE: must be set too, as SURETY_TLS_CERT_FILE is',
      'SURETY_BUNDLES_DIR: must be set too, as SURETY_TLS_CERT_FILE is',
    ]);
    const required = mistakes({}, 'serve').map((mistake) => mistake.split(':')[0]);
    expect(required).toEqual([
      'SURETY_TLS_CERT_FILE',
      'SURETY_TLS_KEY_FILE',
      'SURETY_BUNDLES_DIR',
      'SURETY_DATABASE_URL',
    ]);
  });

  it('looks into the files of TLS together with everything else', () => {
    const empty = join(folder, 'no-bundles');
    mkdirSync(empty, { recursive: true });
    const url = 'mysql://u:hunter2@h/d';
    const wrong = { ...serving, SURETY_DATABASE_URL_FILE: undefined, SURETY_DATABASE_URL: url };
    const otherKey = certificates.callers['spiffe://surety.test/operator/root']?.key ?? '';
    const mismatched = mistakes(
      { ...wrong, SURETY_TLS_KEY_FILE: otherKey, SURETY_BUNDLES_DIR: empty },
      'serve',
    );
    expect(mismatched).toEqual([
      'SURETY_DATABASE_URL: must be a URL like postgres://user:password@host:5432/database',
      `SURETY_TLS_KEY_FILE: ${otherKey} is not the key of ${certificates.service.cert}`,
      `SURETY_BUNDLES_DIR: ${empty} has no <trust-domain>.pem in it`,
    ]);
    const garbage = join(folder, 'url');
    expect(
      mistakes({ ...wrong, SURETY_TLS_CERT_FILE: garbage, SURETY_TLS_KEY_FILE: garbage }, 'serve').slice(1),
    ).toEqual([
      `SURETY_TLS_CERT_FILE: ${garbage}: no CERTIFICATE in it`,
      `SURETY_TLS_KEY_FILE: ${garbage} is not a private key in PEM without a passphrase`,
    ]);
  });

  it('names every bundle that cannot be used', () => {
    const bundles = join(folder, 'bad-bundles');
    mkdirSync(bundles, { recursive: true });
    writeFileSync(join(bundles, 'acme.test.pem'), 'x');
    writeFileSync(join(bundles, 'globex.test.pem'), readFileSync(certificates.service.cert));
    writeFileSync(join(bundles, 'globex.test.crl.pem'), 'y');
    const found = mistakes({ ...serving, SURETY_BUNDLES_DIR: bundles }, 'serve');
    expect(found).toEqual([
      `SURETY_BUNDLES_DIR: ${join(bundles, 'acme.test.pem')}: no CERTIFICATE in it`,
      `SURETY_BUNDLES_DIR: ${join(bundles, 'globex.test.crl.pem')}: no X509 CRL in it`,
      expect.stringMatching(/globex\.test\.pem: certificate [0-9a-f]+: ISSUER_NOT_CA$/),
    ]);
  });

  it('refuses a file where the folder of the state should be', () => {
    const file = join(folder, 'url');
    expect(mistakes({ SURETY_STATE_DIR: file })).toEqual([`SURETY_STATE_DIR: ${file} is not a folder`]);
    expect(mistakes({ SURETY_STATE_DIR: join(folder, 'to-be-made') })).toEqual([]);
  });

  it('says where a database is without its login', () => {
    const [migration, serves] = ['postgres://m:hunter2@db/d', 'postgres://u:hunter2@db:6000/d'];
    const both = { SURETY_MIGRATION_URL: migration, SURETY_DATABASE_URL: serves };
    expect(databasePlace(both, 'migrate')).toBe('db:5432 (SURETY_MIGRATION_URL)');
    expect(databasePlace(both, 'serve')).toBe(
      'db:5432 (SURETY_MIGRATION_URL) or db:6000 (SURETY_DATABASE_URL)',
    );
    expect(databasePlace({ ...both, SURETY_MIGRATION_URL: serves }, 'serve')).toBe(
      'db:6000 (SURETY_MIGRATION_URL, SURETY_DATABASE_URL)',
    );
    expect(databasePlace({}, 'start')).toBeUndefined();
  });

  it('has a default for whatever is not required, and each default is a right one', () => {
    expect(mistakes({})).toEqual([]);
    expect(mistakes(serving, 'serve')).toEqual([]);
  });

  it('leaves nothing to PG* variables', () => {
    const environment: NodeJS.ProcessEnv = {
      PGHOST: 'elsewhere',
      PGPASSFILE: 'x',
      PATH: '/bin',
      PGUSER: 'u',
    };
    forgetPostgresVariables(environment);
    expect(environment).toEqual({ PATH: '/bin' });
  });
});

describe('docs/configuration.md', () => {
  it('has the table of all variables as they are', () => {
    const page = readFileSync(fileURLToPath(new URL('../../docs/configuration.md', import.meta.url)), 'utf8');
    expect(page).toContain(variablesTable());
    for (const name of Object.keys(VARIABLES)) expect(page).toContain(name);
  });
});
