import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { durationFromMs, timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, describe, expect, it } from 'vitest';
import { parseOptionsOf } from '../../src/cli/admin/field-flags.js';
import { adminHelp } from '../../src/cli/admin/help.js';
import { READ_COMMANDS } from '../../src/cli/admin/read-records.js';
import { RESERVED_OPTIONS } from '../../src/cli/admin/send-mutation.js';
import { targetName } from '../../src/cli/admin/show-command.js';
import { buildMutation, MUTATION_COMMANDS } from '../../src/cli/admin/subcommands.js';
import { UsageError } from '../../src/cli/failure.js';
import { AdminCommandSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import {
  DomainSchema,
  EntitlementSchema,
  OperatorRole,
  OperatorSchema,
  SinkSchema,
} from '../../src/gen/surety/authority/v1/records_pb.js';
import { CertificateBinding, RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { DataClass } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';

// authority.md, Signed commands: what an operator types becomes exactly this command.

const NOW_MS = Date.UTC(2027, 0, 1);
const { ACTIVE, SUSPENDED } = RecordStatus;
const folder = mkdtempSync(path.join(tmpdir(), 'surety-admin-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const { jwk } = createSigningKey().publicKey;
const keyFile = path.join(folder, 'key.jwk.json');
writeFileSync(keyFile, JSON.stringify({ ...(JSON.parse(jwk) as object), use: 'sig' }));

type Mutation = NonNullable<MessageInitShape<typeof AdminCommandSchema>['mutation']>;

function commandOf(name: string) {
  const command = MUTATION_COMMANDS.find((one) => one.name === name);
  if (!command) throw new Error(`no ${name}`);
  return command;
}

/** What the service would decode. */
function built(args: readonly string[], before?: Parameters<typeof buildMutation>[2]) {
  const [name, ...rest] = args;
  const command = commandOf(name ?? '');
  const { values } = parseArgs({ args: rest, options: parseOptionsOf(command.flags), allowNegative: true });
  const mutation = buildMutation(command, { flags: values, nowMs: NOW_MS }, before);
  return decoded(mutation);
}

function decoded(mutation: Mutation) {
  const bytes = toBinary(AdminCommandSchema, create(AdminCommandSchema, { mutation }));
  return fromBinary(AdminCommandSchema, bytes).mutation;
}

const words = (text: string): string[] => text.split(' ');

const CASES: readonly (readonly [readonly string[], Mutation])[] = [
  [
    words('create-domain --domain-id globex.test --allow-standing-registrations'),
    { case: 'createDomain', value: { domainId: 'globex.test', allowStandingRegistrations: true } },
  ],
  [words('update-domain --status SUSPENDED'), { case: 'updateDomain', value: { status: SUSPENDED } }],
  [
    words('put-sink --sink mail --authority-systems smtp --authority-systems imap --send-window 1m30s'),
    {
      case: 'putSink',
      value: {
        sink: { sink: 'mail', authoritySystems: ['smtp', 'imap'], sendWindow: durationFromMs(90_000) },
      },
    },
  ],
  [['bump-policy-revision'], { case: 'bumpPolicyRevision', value: {} }],
  [['bump-revocation-epoch'], { case: 'bumpRevocationEpoch', value: {} }],
  [['freeze'], { case: 'setFreeze', value: { frozen: true } }],
  [
    words('set-limits --actor-requests-per-minute 600 --max-hops 4'),
    { case: 'setLimits', value: { actorRequestsPerMinute: 600, maxHops: 4 } },
  ],
  [words('set-share --requests-per-minute 1200'), { case: 'setShare', value: { requestsPerMinute: 1200 } }],
  [
    words('set-service-limit --requests-per-minute 12000'),
    { case: 'setServiceLimit', value: { requestsPerMinute: 12_000 } },
  ],
  [words('reset-breaker --sink mail'), { case: 'resetBreaker', value: { sink: 'mail' } }],
  [words('unfreeze --sink mail'), { case: 'setFreeze', value: { sink: 'mail', frozen: false } }],
  [
    words('put-principal --principal-id paula'),
    { case: 'putPrincipal', value: { principal: { principalId: 'paula', status: ACTIVE } } },
  ],
  [
    words('put-guest --guest-id gus --status suspended --expire-time 2027-02-01T00:00:00+01:00'),
    {
      case: 'putGuest',
      value: {
        guest: {
          guestId: 'gus',
          status: SUSPENDED,
          expireTime: timestampFromDate(new Date('2027-01-31T23:00:00Z')),
        },
      },
    },
  ],
  [
    words('put-harness --harness-id planner --principal-id paula --binding-assurance attested'),
    {
      case: 'putHarness',
      value: {
        harness: {
          harnessId: 'planner',
          principalId: 'paula',
          bindingAssurance: 'attested',
          status: ACTIVE,
        },
      },
    },
  ],
  [
    words('bump-credential-epoch --harness-id planner'),
    { case: 'bumpCredentialEpoch', value: { harnessId: 'planner' } },
  ],
  [
    words(
      `create-credential --credential-id c-1 --harness-id planner --spiffe-id spiffe://acme.test/h --expire-time 24h --certificate-digest ${'0A'.repeat(32)} --binding certificate`,
    ),
    {
      case: 'createCredential',
      value: {
        credential: {
          credentialId: 'c-1',
          harnessId: 'planner',
          spiffeId: 'spiffe://acme.test/h',
          binding: CertificateBinding.CERTIFICATE,
          certificateDigest: new Uint8Array(32).fill(10),
          expireTime: timestampFromMs(NOW_MS + 86_400_000),
        },
      },
    },
  ],
  [
    words('revoke-credential --credential-id c-1'),
    { case: 'revokeCredential', value: { credentialId: 'c-1' } },
  ],
  [
    words(
      'put-entitlement --entitlement-id e-1 --principal-id paula --action refund --resource * --expire-time 7d',
    ),
    {
      case: 'putEntitlement',
      value: {
        entitlement: {
          entitlementId: 'e-1',
          principalId: 'paula',
          action: 'refund',
          resource: '*',
          expireTime: timestampFromMs(NOW_MS + 7 * 86_400_000),
        },
      },
    },
  ],
  [
    words('revoke-entitlement --entitlement-id e-1'),
    { case: 'revokeEntitlement', value: { entitlementId: 'e-1' } },
  ],
  [
    words(
      'create-grant --grant-id g-1 --guest-id gus --harness-id planner --actions a --actions b --resources r --input-sources i --output-sinks o --data-classes C1_INTERNAL --data-classes c2-restricted --max-uses 2147483647 --repeatable --expire-time 1h',
    ),
    {
      case: 'createGrant',
      value: {
        grant: {
          grantId: 'g-1',
          guestId: 'gus',
          harnessId: 'planner',
          actions: ['a', 'b'],
          resources: ['r'],
          inputSources: ['i'],
          outputSinks: ['o'],
          dataClasses: [DataClass.C1_INTERNAL, DataClass.C2_RESTRICTED],
          maxUses: 2_147_483_647n,
          repeatable: true,
          expireTime: timestampFromMs(NOW_MS + 3_600_000),
        },
      },
    },
  ],
  [words('revoke-grant --grant-id g-1'), { case: 'revokeGrant', value: { grantId: 'g-1' } }],
  [
    words(`put-operator --spiffe-id spiffe://acme.test/op --signing-key-jwk ${keyFile} --roles admin`),
    {
      case: 'putOperator',
      value: {
        operator: {
          spiffeId: 'spiffe://acme.test/op',
          signingKeyJwk: jwk,
          roles: [OperatorRole.ADMIN],
          status: ACTIVE,
        },
      },
    },
  ],
  [
    words(
      `put-owner --spiffe-id spiffe://acme.test/o --signing-key-jwk ${jwk} --source-scopes * --type-scopes x`,
    ),
    {
      case: 'putOwner',
      value: {
        owner: {
          spiffeId: 'spiffe://acme.test/o',
          signingKeyJwk: jwk,
          sourceScopes: ['*'],
          typeScopes: ['x'],
          status: ACTIVE,
        },
      },
    },
  ],
  [
    words('register-workload --possession-jws eyJ.a.b'),
    { case: 'registerWorkload', value: { possessionJws: 'eyJ.a.b' } },
  ],
  [
    words('renew-workload --possession-jws eyJ.a.b'),
    { case: 'renewWorkload', value: { possessionJws: 'eyJ.a.b' } },
  ],
  [
    words('revoke-workload --registration-id r-1'),
    { case: 'revokeWorkload', value: { registrationId: 'r-1' } },
  ],
  // Its fields are a list of messages: they are given with --json.
  [
    words('put-gate-shape --gate-shape-id invoice --status suspended'),
    { case: 'putGateShape', value: { gateShape: { gateShapeId: 'invoice', status: SUSPENDED } } },
  ],
  [
    words('put-action-condition --action-type mail.send --expression true'),
    {
      case: 'putActionCondition',
      value: { actionCondition: { actionType: 'mail.send', expression: 'true', status: ACTIVE } },
    },
  ],
  [
    words('put-tool --tool-name mailer --non-grantable'),
    { case: 'putTool', value: { tool: { toolName: 'mailer', nonGrantable: true, status: ACTIVE } } },
  ],
];

describe('what is typed becomes the command', () => {
  it.each(CASES.map(([args, mutation]) => ({ name: args[0], args, mutation })))(
    '$name',
    ({ args, mutation }) => {
      expect(built(args)).toEqual(decoded(mutation));
    },
  );

  it('for every mutation of the contract', () => {
    const mutations = AdminCommandSchema.fields.filter(({ oneof }) => oneof?.name === 'mutation');
    expect(new Set(CASES.map(([, mutation]) => mutation.case))).toEqual(
      new Set(mutations.map(({ localName }) => localName)),
    );
  });

  it('or as protobuf JSON, whole', () => {
    const given = { json: '{"sink":{"sink":"mail","authoritySystems":["smtp"],"settleTime":"5s"}}' };
    expect(decoded(buildMutation(commandOf('put-sink'), given) as Mutation)).toEqual(
      built(words('put-sink --sink mail --authority-systems smtp --settle-time 5s')),
    );
    const frozen = buildMutation(commandOf('freeze'), { json: '{"sink":"mail"}' });
    expect(decoded(frozen as Mutation)).toEqual(built(words('freeze --sink mail')));
    const wrong = () => buildMutation(commandOf('put-sink'), { json: '{"snk":{}}' });
    expect(wrong).toThrow(UsageError);
  });

  it('and a field that is not given stays as it is, but for what is the service’s', () => {
    const operator = create(OperatorSchema, {
      spiffeId: 'spiffe://acme.test/op',
      signingKeyJwk: 'the old one',
      roles: [OperatorRole.ADMIN, OperatorRole.FREEZER],
      status: SUSPENDED,
      revision: 7n,
    });
    const replaced = built(
      words(`put-operator --spiffe-id spiffe://acme.test/op --signing-key-jwk ${jwk}`),
      operator,
    );
    expect(replaced.value).toMatchObject({
      operator: { ...operator, signingKeyJwk: jwk, revision: 0n },
    });

    const sink = create(SinkSchema, {
      sink: 'mail',
      authoritySystems: ['smtp'],
      settleTime: durationFromMs(5000),
      frozen: true,
      freezeReason: 'storm',
      revision: 3n,
    });
    expect(built(words('put-sink --sink mail --send-window 10s'), sink)).toEqual(
      built(words('put-sink --sink mail --authority-systems smtp --settle-time 5s --send-window 10s')),
    );
    expect(
      built(['put-sink', '--sink', 'mail', '--authority-systems', '', '--settle-time', ''], sink),
    ).toEqual(built(words('put-sink --sink mail')));

    const domain = create(DomainSchema, { status: ACTIVE, allowStandingRegistrations: true, revision: 2n });
    expect(built(words('update-domain --status suspended'), domain)).toEqual(
      built(words('update-domain --status suspended --allow-standing-registrations')),
    );
    expect(built(words('update-domain --no-allow-standing-registrations'), domain)).toEqual(
      built(words('update-domain --status active')),
    );

    const entitlement = create(EntitlementSchema, {
      ...{ entitlementId: 'e-1', principalId: 'paula', action: 'refund', resource: 'r' },
      ...{ policyRevision: 4n, revokeTime: timestampFromMs(NOW_MS), revision: 2n },
    });
    expect(built(words('put-entitlement --entitlement-id e-1 --expire-time 1h'), entitlement)).toEqual(
      built(
        words(
          'put-entitlement --entitlement-id e-1 --principal-id paula --action refund --resource r --expire-time 1h',
        ),
      ),
    );
  });
});

describe('a value that cannot be read is said by its option', () => {
  it.each([
    [words('put-guest --expire-time tomorrow'), /^--expire-time: must be a time/],
    [words('put-guest --expire-time 2027-02-01T00:00:00'), /^--expire-time: must be a time/],
    [words('put-guest --expire-time 2027-13-01T00:00:00Z'), /^--expire-time: must be a time/],
    [words('put-sink --send-window 90'), /^--send-window: must be a duration/],
    [words('put-guest --status DEAD'), /^--status: must be one of ACTIVE, SUSPENDED, REVOKED$/],
    [words('put-guest --status UNSPECIFIED'), /^--status: must be one of/],
    [words('create-grant --max-uses=-1'), /^--max-uses: must be a whole number$/],
    [words('create-grant --max-uses 9223372036854775808'), /^--max-uses: must be a whole number$/],
    [words('create-credential --certificate-digest xyz'), /^--certificate-digest: must be hexadecimal$/],
    [words('put-owner --signing-key-jwk /nowhere/key'), /^--signing-key-jwk: \/nowhere\/key is not there$/],
    [words('put-owner --signing-key-jwk {"kty":"RSA"}'), /^--signing-key-jwk: /],
    [
      [...words('register-workload --possession-jws'), keyFile],
      /^--possession-jws: .+ is not a compact JWS$/,
    ],
    [words('register-workload --possession-jws eyJh.eyJi'), /^--possession-jws: this is not a compact JWS$/],
    [
      [...words('put-owner --type-scopes a --type-scopes'), ''],
      /^--type-scopes: an empty value stands alone/,
    ],
  ])('%j', (args, message) => {
    expect(() => built(args)).toThrow(message);
  });
});

describe('a record', () => {
  it('is called as the commands call it', () => {
    expect(targetName({ kind: 'gateShape', id: 'mail' })).toBe('gate-shape mail');
    expect(targetName({ kind: 'actionCondition', id: '' })).toBe('action-condition');
  });
});

describe('--json', () => {
  const given = (json: string) => () => buildMutation(commandOf('create-grant'), { json });
  const ofKind = '--json: must be a CreateGrant (create-grant) in protobuf JSON';

  it.each([
    ['{bad', '--json: must be JSON, or a file that holds some'],
    ['{"grand": {}}', `${ofKind}; there is no field "grand"`],
    ['{"grant": {"maxUses": {}}}', `${ofKind}; its max_uses is not one`],
    ['7', ofKind],
  ])('that is %s is said in a sentence', (json, sentence) => {
    expect(given(json)).toThrow(new UsageError(sentence));
  });
});

describe('the options', () => {
  it('of a field never hide one that every command has, nor another field', () => {
    for (const { flags, name } of MUTATION_COMMANDS) {
      const names = flags.map((flag) => flag.name);
      expect({ name, taken: names.filter((one) => RESERVED_OPTIONS.includes(one)) }).toEqual({
        name,
        taken: [],
      });
      expect(new Set(names).size).toBe(names.length);
    }
  });

  it('are all in the help, with every command', () => {
    const help = adminHelp();
    for (const { name, flags } of [...MUTATION_COMMANDS, ...READ_COMMANDS]) {
      expect(help).toMatch(new RegExp(`^ {2}${name}\\b`, 'm'));
      for (const flag of flags) expect(help).toContain(flag.name);
    }
    expect(Math.max(...help.split('\n').map((line) => line.length))).toBeLessThanOrEqual(120);
  });
});
