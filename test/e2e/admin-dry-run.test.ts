import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MUTATION_COMMANDS } from '../../src/cli/admin/subcommands.js';
import { possession, registrationSpec } from '../../src/cli/client/register-workload.js';
import { type RegistrationSpec, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { AdminCli, inAcme } from '../support/admin-cli.js';
import {
  ACME,
  type E2eWorld,
  EXECUTOR_B,
  OPERATOR,
  openE2eWorld,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';

// docs/administration.md, Seeing before doing: what `surety admin --dry-run` shows is what comes of it.

let world: E2eWorld;
let cli: AdminCli;
const folder = mkdtempSync(path.join(tmpdir(), 'surety-dry-run-'));
beforeAll(async () => {
  world = await openE2eWorld();
  cli = new AdminCli(world);
});
afterAll(async () => {
  await world?.close();
  rmSync(folder, { recursive: true, force: true });
});

const LATER = '2030-01-01T00:00:00Z';
const ownerKey = path.join(folder, 'owner.public.jwk.json');
writeFileSync(ownerKey, createSigningKey().publicKey.jwk);
const proofs = { registered: path.join(folder, 'registered.jws'), renewed: path.join(folder, 'renewed.jws') };
const shape = {
  gateShape: {
    gateShapeId: 'invoice',
    status: 'RECORD_STATUS_ACTIVE',
    fields: [{ name: 'amount', kind: 'GATE_FIELD_KIND_TEXT' }],
  },
};

/** A line of `surety admin`, and how the record that it changes is shown, if it changes one. */
const CHANGES: readonly (readonly [line: string, shown: string])[] = [
  ['create-domain initech.test --allow-standing-registrations', 'get-domain initech.test'],
  ['put-sink drafts --authority-systems smtp-log', 'get-domain acme.test sinks[drafts].'],
  ['freeze drafts', 'get-domain acme.test sinks[drafts].'],
  ['unfreeze drafts', 'get-domain acme.test sinks[drafts].'],
  ['update-domain --no-allow-standing-registrations', 'get-domain acme.test'],
  ['update-domain --allow-standing-registrations', 'get-domain acme.test'],
  // What it changes is no record: `status` shows it.
  ['reset-breaker drafts', ''],
  ['set-service-limit --requests-per-minute 200000', 'get-domain surety.test'],
  ['set-share --requests-per-minute 9000', 'get-domain acme.test'],
  ['set-limits --pending-ceiling 5000 --fairness-burst 70', 'get-domain acme.test'],
  ['put-principal pia', 'get-principal pia'],
  ['put-guest gus --expire-time LATER', 'get-guest gus'],
  ['put-harness mailer --principal-id pia --binding-assurance attested', 'get-harness mailer'],
  ['bump-credential-epoch mailer', 'get-harness mailer'],
  [
    'create-credential c-1 --harness-id mailer --spiffe-id spiffe://acme.test/harness/mailer --expire-time LATER',
    'get-credential c-1',
  ],
  ['revoke-credential c-1', 'get-credential c-1'],
  [
    'put-entitlement e-1 --principal-id pia --action mail.send --resource * --expire-time LATER',
    'get-entitlement e-1',
  ],
  ['put-entitlement e-1 --expire-time 2031-01-01T00:00:00Z', 'get-entitlement e-1'],
  ['revoke-entitlement e-1', 'get-entitlement e-1'],
  [
    'create-grant g-1 --principal-id pia --harness-id mailer --actions mail.send --resources letter --input-sources crm --output-sinks drafts --data-classes C2_RESTRICTED --max-uses 3 --expire-time LATER',
    'get-grant g-1',
  ],
  ['revoke-grant g-1', 'get-grant g-1'],
  [
    'put-operator spiffe://acme.test/operator/bo --roles AUDITOR',
    'get-operator spiffe://acme.test/operator/bo',
  ],
  [
    'put-owner spiffe://acme.test/owner/oz --signing-key-jwk OWNER_KEY --source-scopes * --type-scopes mail',
    'get-owner spiffe://acme.test/owner/oz',
  ],
  ['register-workload REGISTERED', 'get-workload reg-dry'],
  ['renew-workload RENEWED', 'get-workload reg-dry'],
  ['revoke-workload reg-dry', 'get-workload reg-dry'],
  [`put-gate-shape --json ${JSON.stringify(shape)}`, 'get-gate-shape invoice'],
  ['put-action-condition mail.send --expression true', 'get-action-condition mail.send'],
  ['put-tool mailer --non-grantable', 'get-tool mailer'],
  ['bump-policy-revision', 'get-domain acme.test'],
  ['bump-revocation-epoch', 'get-domain acme.test'],
];

/** Fields of a new record that the service fills in where they are not given. */
const FILLED_IN = /^(send_window|settle_time|credential_epoch|breaker_.*|unknown_.*)$/;
/** Fields that only the service knows. */
const TOLD_LATER = /(^|\.)(update_time|revoke_time|not_before_time|proof_key_thumbprint)$/;

/** Two versions of one registration, each with its proof. */
async function writeProofs(): Promise<void> {
  const me = await world.channel(OPERATOR).service(WorkloadService).whoAmI({ domainId: ACME });
  const key = createSigningKey();
  const wish = {
    domainId: ACME,
    spiffeId: EXECUTOR_B,
    role: WorkloadRole.EFFECT_EXECUTOR,
    workloadId: 'mail',
  };
  const overrides: Partial<RegistrationSpec> = { registrationId: 'reg-dry' };
  const times = { revocationEpoch: me.revocationEpoch, nowMs: Number(me.nowTime?.seconds ?? 0n) * 1000 };
  const spec = registrationSpec({ ...wish, sinks: ['drafts'], overrides }, key, times);
  writeFileSync(proofs.registered, await possession(spec, me, key));
  writeFileSync(
    proofs.renewed,
    await possession({ ...spec, credentialEpoch: 2n, sessionId: 'second' }, me, key),
  );
}

test('every command that changes something is here', () => {
  const names = CHANGES.map(([line]) => line.split(' ')[0]);
  expect([...new Set(names)].sort()).toEqual(MUTATION_COMMANDS.map(({ name }) => name).sort());
});

test('shows exactly what comes of it, and sends nothing', async () => {
  await writeProofs();
  for (const [line, shown] of CHANGES) {
    const told = line
      .replace('LATER', LATER)
      .replace('OWNER_KEY', ownerKey)
      .replace('REGISTERED', proofs.registered)
      .replace('RENEWED', proofs.renewed);
    const [get = '', id = '', prefix = ''] = shown.split(' ');
    const home = /^(create-domain|set-service-limit)/.test(line) ? SERVICE_DOMAIN : ACME;
    const args = inAcme(told).map((word) => (word === ACME && home !== ACME ? home : word));

    const before = await cli.head(home);
    const dry = await cli.run([...args, '--dry-run']);
    expect({ line, ...dry }).toMatchObject({ line, code: 0, err: '' });
    expect(await cli.head(home)).toBe(before);
    const predicted = afterOf(dry.out);
    expect({ line, fields: predicted.size > 1 }).toEqual({ line, fields: true });

    expect({ line, ...(await cli.run(args)) }).toMatchObject({ line, code: 0 });
    if (shown === '') continue;
    const { out } = await cli.run([get, id, ...(get === 'get-domain' ? [] : ['--domain', ACME])]);
    const found = linesOf(out);
    for (const [field, value] of predicted) {
      if (TOLD_LATER.test(field)) continue;
      expect({ line, field, value: found.get(`${prefix}${field}`) }).toEqual({ line, field, value });
    }
    // And nothing is there that was not shown, of the record itself.
    const unseen = [...found.keys()].filter(
      (name) => name.startsWith(prefix) && !name.slice(prefix.length).startsWith('sinks['),
    );
    for (const name of unseen) {
      const field = name.slice(prefix.length);
      if (!TOLD_LATER.test(field) && !FILLED_IN.test(field))
        expect({ line, field, seen: predicted.has(field) }).toEqual({ line, field, seen: true });
    }
  }
});

test('shows the header and each field before and after', async () => {
  const { code, out, err } = await cli.run(inAcme('freeze drafts --dry-run'));
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toContain('freeze, not sent:');
  expect(out).toMatch(/audience +spiffe:\/\/surety\.test\/surety\n/);
  expect(out).toMatch(/incarnation +1\n/);
  expect(out).toMatch(/expected policy revision +2\n/);
  expect(out).toMatch(/expires +\d{4}-\d\d-\d\dT/);
  const [, revision] = /sink drafts is at revision (\d+):/.exec(out) ?? [];
  expect(out).toMatch(new RegExp(`expected entity revision +${revision}\n`));
  expect(out).toMatch(/~ +frozen +false → true\n/);
  expect(out).toMatch(/\+ +freeze_reason +a test\n/);
  expect(out).toMatch(new RegExp(`~ +revision +${revision} → ${Number(revision) + 1}\n`));
  expect((await cli.run(['get-domain', ACME])).out).toMatch(/sinks\[drafts\]\.frozen +false\n/);
});

test('of what is not there says so', async () => {
  const { code, out } = await cli.run(inAcme('revoke-grant nowhere --dry-run'));
  expect(code).toBe(0);
  expect(out).toContain('grant nowhere is not there yet:\n  nothing to change');
  const sent = await cli.run(inAcme('revoke-grant nowhere'));
  expect(sent).toMatchObject({ code: 1, err: expect.stringContaining('RECORD_MISSING') });
});

/** What a dry run says that will be. */
function afterOf(out: string): Map<string, string> {
  const lines = out
    .slice(out.indexOf(' at revision ') + 1 || out.indexOf(' is not there yet'))
    .split('\n')
    .slice(1);
  return new Map(
    lines.flatMap((line) => {
      const [, mark, name = '', text = ''] = /^ {2}([ +~-]) +(\S+) *(.*)$/.exec(line) ?? [];
      if (mark === undefined || mark === '-') return [];
      return [[name, mark === '~' ? (text.split(' → ')[1] ?? '') : text] as const];
    }),
  );
}

function linesOf(out: string): Map<string, string> {
  return new Map(
    out
      .trim()
      .split('\n')
      .map((line) => [line.split(/ {2,}/)[0] ?? '', line.split(/ {2,}/)[1] ?? ''] as const),
  );
}
