import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { executeExactly } from '../../src/cli/admin/execute-exactly.js';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { possession, registrationSpec } from '../../src/cli/client/register-workload.js';
import { OutcomeUnknown } from '../../src/cli/client/send-exactly.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { UsageError } from '../../src/cli/failure.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { AdminCli, inAcme } from '../support/admin-cli.js';
import { runCommand } from '../support/command-process.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_B,
  OPERATOR,
  openE2eWorld,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';

// authority.md, Signed commands, as an operator meets them: `surety admin` against a service.

let world: E2eWorld;
let cli: AdminCli;
const folder = mkdtempSync(path.join(tmpdir(), 'surety-admin-'));
beforeAll(async () => {
  world = await openE2eWorld();
  cli = new AdminCli(world);
});
afterAll(async () => {
  await world?.close();
  rmSync(folder, { recursive: true, force: true });
});

const connection: AdminCli['connection'] = (...args) => cli.connection(...args);
const run: AdminCli['run'] = (...args) => cli.run(...args);
const head: AdminCli['head'] = (...args) => cli.head(...args);

describe('a change', () => {
  test('is done, and says where it is in the log', async () => {
    const before = await head();
    const put = await run(inAcme('put-sink mail --authority-systems smtp-log --settle-time 5m'));
    expect(put).toMatchObject({ code: 0, err: '' });
    expect(put.out).toContain(`put-sink in ${ACME}: done\n`);
    expect(put.out).toMatch(/sink mail +revision 1\n/);
    expect(await head()).toBe(String(BigInt(before) + 2n));
    expect(put.out).toMatch(new RegExp(`audit position +${await head()}\n`));
  });

  test('keeps what is not given, and rests on the revision that it found', async () => {
    expect((await run(inAcme('put-sink mail --send-window 90s'))).out).toMatch(/sink mail +revision 2\n/);
    const { out } = await run(['get-domain', ACME]);
    expect(out).toMatch(/sinks\[mail\]\.authority_systems +smtp-log\n/);
    expect(out).toMatch(/sinks\[mail\]\.send_window +90s\n/);
    expect(out).toMatch(/sinks\[mail\]\.settle_time +300s\n/);
  });

  test('is refused by name where the record has changed in the meantime', async () => {
    const session = new AdminSession(world.channel(OPERATOR), world.signingKey(OPERATOR));
    const stale = await session.sign(
      ACME,
      { case: 'setFreeze', value: { sink: 'mail', frozen: true } },
      'late',
      {
        expectedEntityRevision: 1n,
      },
    );
    const call = executeExactly(world.channel(OPERATOR).service(AdminService), stale);
    await expect(call).rejects.toMatchObject({ code: 'ABORTED', reason: 'REVISION_STALE' });
    const policy = await session.sign(
      ACME,
      { case: 'setFreeze', value: { sink: 'mail', frozen: true } },
      'late',
      {
        expectedPolicyRevision: 9n,
      },
    );
    const other = executeExactly(world.channel(OPERATOR).service(AdminService), policy);
    await expect(other).rejects.toMatchObject({ code: 'ABORTED', reason: 'REVISION_STALE' });
  });

  test('is refused where the record changes between its reading and its sending: exit 1', async () => {
    // The key is read after the record and before the command is sent: a pipe holds it back until then.
    const pipe = path.join(folder, 'key.pipe');
    execFileSync('mkfifo', [pipe]);
    const late = runCommand([
      'admin',
      ...inAcme('put-sink mail --send-window 30s'),
      ...connection(OPERATOR, pipe),
    ]);
    const writer = await open(pipe, 'w');
    expect((await run(inAcme('put-sink mail --send-window 40s'))).code).toBe(0);
    await writer.writeFile(readFileSync(world.layout.signingKeys[OPERATOR]?.pem ?? ''));
    await writer.close();
    const { code, out, err } = await late;
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/^surety admin: ABORTED REVISION_STALE: .* \(current 3\)\n$/);
    expect((await run(['get-domain', ACME])).out).toMatch(/sinks\[mail\]\.send_window +40s\n/);
  });

  test('with --force is then built anew on what it finds', async () => {
    const pipe = path.join(folder, 'forced.pipe');
    execFileSync('mkfifo', [pipe]);
    const args = inAcme('put-sink mail --send-window 20s --force');
    const forced = runCommand(['admin', ...args, ...connection(OPERATOR, pipe)]);
    const key = readFileSync(world.layout.signingKeys[OPERATOR]?.pem ?? '');
    const first = await open(pipe, 'w');
    expect((await run(inAcme('put-sink mail --settle-time 7m'))).code).toBe(0);
    await first.writeFile(key);
    await first.close();
    expect(await forced).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/sink mail +revision 5\n/),
    });
    const { out } = await run(['get-domain', ACME]);
    expect(out).toMatch(/sinks\[mail\]\.send_window +20s\n/);
    expect(out).toMatch(/sinks\[mail\]\.settle_time +420s\n/);
  });

  test('that is wrong says every field, and changes nothing: exit 1', async () => {
    const before = await head();
    const wrong = await run(inAcme('create-grant g-1 --principal-id paula --actions a --actions a'));
    expect(wrong).toMatchObject({ code: 1, out: '' });
    expect(wrong.err).toMatch(/^surety admin: INVALID_ARGUMENT FIELD_INVALID: /);
    const fields = [...wrong.err.matchAll(/^ {2}command_jws\.create_grant\.grant\.(\w+)/gm)].map(
      ([, name]) => name,
    );
    expect(fields).toEqual(
      expect.arrayContaining(['harness_id', 'actions', 'resources', 'max_uses', 'expire_time']),
    );
    expect(await head()).toBe(before);
  });

  test('without a reason, or by an option that there is not, is not tried', async () => {
    await expect(run(['bump-policy-revision'])).rejects.toThrow(UsageError);
    await expect(run(inAcme('bump-policy-revision now'))).rejects.toThrow(UsageError);
    await expect(run(inAcme('put-sink mail --sink mail'))).rejects.toThrow(UsageError);
    await expect(run(inAcme('put-sink mail --colour red'))).rejects.toThrow(/--colour/);
  });
});

describe('records', () => {
  test('are listed in pages, as a table or as JSON', async () => {
    const page = await run(['list-entitlements', '--domain', ACME, '--page-size', '1']);
    expect(page.out.split('\n')[0]).toMatch(/^ENTITLEMENT_ID +PRINCIPAL_ID +ACTION/);
    expect(page.out.trim().split('\n')).toHaveLength(2);
    const token = /--page-token (\S+), or --all/.exec(page.err)?.[1] ?? '';
    const rest = await run(['list-entitlements', '--domain', ACME, '--page-token', token, '--json']);
    const all = await run(['list-entitlements', '--domain', ACME, '--page-size', '1', '--all', '--json']);
    const ids = (out: string) =>
      (JSON.parse(out) as { entitlements: { entitlementId: string }[] }).entitlements.map(
        (one) => one.entitlementId,
      );
    expect(ids(all.out)).toHaveLength(2);
    expect(ids(rest.out)).toEqual(ids(all.out).slice(1));
    expect(all.err).toBe('');
    const forged = await run(['list-grants', '--domain', ACME, '--page-token', token]);
    expect(forged).toMatchObject({
      code: 1,
      err: expect.stringMatching(/FIELD_INVALID.*\n {2}page_token: /),
    });
  });

  test('of the service are those of the certificate unless it is told otherwise; nobody sees what is not theirs', async () => {
    const { out } = await run(['list-operators']);
    expect(out).toContain(OPERATOR);
    expect(out).toContain(AUDITOR);
    expect((await run(['get-principal', 'nobody', '--domain', ACME])).err).toContain(
      'no such record in acme.test',
    );
    expect((await run(['list-grants'], connection(AUDITOR))).code).toBe(1);
  });
});

describe('keys', () => {
  test('a workload is registered, listed and revoked by its proof', async () => {
    const me = await world.channel(OPERATOR).service(WorkloadService).whoAmI({ domainId: ACME });
    const key = createSigningKey();
    const spec = registrationSpec(
      {
        ...{ domainId: ACME, spiffeId: EXECUTOR_B, role: WorkloadRole.EFFECT_EXECUTOR, workloadId: 'mail' },
        ...{ sinks: ['mail'], overrides: { registrationId: 'reg-cli' } },
      },
      key,
      { revocationEpoch: me.revocationEpoch, nowMs: Number(me.nowTime?.seconds ?? 0n) * 1000 },
    );
    const file = path.join(folder, 'possession.jws');
    writeFileSync(file, `${await possession(spec, me, key)}\n`);
    expect((await run(inAcme(`register-workload ${file} --dry-run`))).out).toMatch(
      /\+ +spec\.workload_id +mail\n/,
    );
    expect((await run(inAcme(`register-workload ${file}`))).out).toMatch(/workload reg-cli +revision 1\n/);
    const listed = await run([
      'list-workloads',
      '--domain',
      ACME,
      '--spiffe-id',
      EXECUTOR_B,
      '--status',
      'active',
    ]);
    expect(listed.out).toMatch(/^reg-cli +mail +EFFECT_EXECUTOR/m);
    expect((await run(inAcme('revoke-workload reg-cli'))).code).toBe(0);
    const gone = await run([
      'list-workloads',
      '--domain',
      ACME,
      '--status',
      'active',
      '--spiffe-id',
      EXECUTOR_B,
    ]);
    expect(gone.out).not.toContain('reg-cli');
  });

  test('an operator replaces its own: the old one signs nothing more', async () => {
    const next = createSigningKey();
    const publicFile = path.join(folder, 'next.public.jwk.json');
    const privateFile = path.join(folder, 'next.pem');
    writeFileSync(publicFile, next.publicKey.jwk);
    writeFileSync(privateFile, next.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const replace = (jwk: string) => [
      'put-operator',
      OPERATOR,
      '--signing-key-jwk',
      jwk,
      '--reason',
      'rotation',
    ];
    const { out } = await run([...replace(publicFile), '--dry-run']);
    expect(out).toMatch(new RegExp(`~ +signing_key_jwk +P-256 \\S+ → P-256 ${next.publicKey.thumbprint}\n`));
    expect(out).toMatch(/ roles +ADMIN\n/);
    expect((await run(replace(publicFile))).out).toContain(`put-operator in ${SERVICE_DOMAIN}: done`);
    const refused = await run(inAcme('bump-policy-revision'));
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('COMMAND_SIGNATURE_INVALID') });
    const old = world.layout.signingKeys[OPERATOR]?.publicJwk ?? '';
    const back = await run(replace(old), connection(OPERATOR, privateFile));
    expect(back).toMatchObject({ code: 0, err: '' });
    expect((await run(['get-operator', OPERATOR])).out).toMatch(/^roles +ADMIN$/m);
  });
});

describe('a lost answer', () => {
  const unanswered = new SuretyError('UNAVAILABLE', '', 'connection reset', {}, [], undefined);

  test('is asked for again with the very same command, which is done once', async () => {
    const service = world.channel(OPERATOR).service(AdminService);
    const session = new AdminSession(world.channel(OPERATOR), world.signingKey(OPERATOR));
    const jws = await session.sign(ACME, { case: 'bumpPolicyRevision', value: {} }, 'a test');
    const sent: string[] = [];
    const losing = {
      executeCommand: async (...[request, options]: Parameters<typeof service.executeCommand>) => {
        const answer = await service.executeCommand(request, options);
        sent.push(request.commandJws ?? '');
        if (sent.length < 3) throw unanswered;
        return answer;
      },
    };
    const before = await head();
    const { duplicate, result } = await executeExactly(losing, jws, () => {}, { firstPauseMs: 1 });
    expect(duplicate).toBe(true);
    expect(sent).toEqual([jws, jws, jws]);
    expect(result?.auditPosition).toBe(BigInt(before) + 2n);
    expect(await head()).toBe(String(result?.auditPosition));
  });

  test('is not asked for without end', async () => {
    let sendings = 0;
    const dead = {
      executeCommand: () => {
        sendings += 1;
        return Promise.reject(unanswered);
      },
    };
    const call = executeExactly(dead, 'x', () => {}, { firstPauseMs: 1, sendings: 4 });
    await expect(call).rejects.toThrow(OutcomeUnknown);
    expect(sendings).toBe(4);
  });
});

describe('the program', () => {
  test('exits 0, or 2 where it is called wrongly, without a stack trace', async () => {
    const listed = await runCommand(['admin', 'list-principals', '--domain', ACME, ...connection()]);
    expect(listed).toMatchObject({ code: 0, err: '' });
    expect(listed.out).toMatch(/^paula +ACTIVE/m);
    const wrong = await runCommand([
      'admin',
      'put-sink',
      '--cert',
      '/nowhere',
      '--key',
      '/nowhere',
      '--reason',
      'x',
    ]);
    expect(wrong).toEqual({ code: 2, out: '', err: 'surety admin: --cert: /nowhere is not there\n' });
  });
});
