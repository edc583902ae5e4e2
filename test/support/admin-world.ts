import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { TimestampSchema } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { bootstrapInput } from '../../src/cli/bootstrap-input.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import type { AdminCommandSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import { createSigningKey, type SigningKey, signCommand } from '../../src/identity/sign.js';
import { parseSpiffeId } from '../../src/identity/spiffe-id.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { Faults } from '../../src/lane/faults.js';
import { SILENT_OBSERVER } from '../../src/lane/lane-observer.js';
import { Lanes } from '../../src/lane/lanes.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { Caller, CallerKind } from '../../src/ledger/types.js';
import { adminService } from '../../src/rpc/admin-service.js';
import type { CallContext, HandlerTools, ServiceBinding } from '../../src/rpc/handler.js';
import { newId } from '../../src/rpc/new-id.js';
import { policyService } from '../../src/rpc/policy-service.js';
import { proofKeysOf } from '../../src/rpc/proof-keys.js';
import { refusalOf } from '../../src/rpc/status.js';
import { workloadService } from '../../src/rpc/workload-service.js';
import { bootstrap } from '../../src/store/bootstrap.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { PgReader } from '../../src/store/pg-reader.js';
import { createTestDatabase, type TestDatabase } from './postgres.js';

export const SERVICE_DOMAIN = 'surety.test';
export const AUDIENCE = `spiffe://${SERVICE_DOMAIN}/surety`;
export const ROOT = `spiffe://${SERVICE_DOMAIN}/operator/root`;
export const DOMAIN = 'acme.test';
const DAY = 86_400_000_000n;

export type MutationInit = NonNullable<MessageInitShape<typeof AdminCommandSchema>['mutation']>;
export type HeaderInit = NonNullable<MessageInitShape<typeof AdminCommandSchema>['header']>;

type Handler = (request: unknown, context: CallContext) => Promise<unknown>;

/** Who calls, and with which key commands are signed. */
export interface Signer {
  readonly spiffeId: string;
  readonly key: SigningKey;
}

/** The authority services on a database of their own, bootstrapped, without listeners: handlers called as the adapter would. */
export class AdminWorld {
  readonly root: Signer = { spiffeId: ROOT, key: createSigningKey() };

  private readonly services = new Map<string, ServiceBinding>();

  private constructor(
    readonly database: TestDatabase,
    readonly sql: pg.Client,
    readonly tools: HandlerTools,
    private readonly closeAll: () => Promise<void>,
  ) {
    for (const binding of [adminService(tools), policyService(tools), workloadService(tools)]) {
      this.services.set(binding.service.typeName, binding);
    }
  }

  static async open(): Promise<AdminWorld> {
    const database = await createTestDatabase();
    const sql = new pg.Client(database.url);
    await sql.connect();
    const settings = { url: database.serviceUrl, applicationName: 'surety-test' };
    const pool = new ConnectionPool(settings, 3);
    const lanes = new Lanes({
      pool,
      codec: auditCodec,
      faults: new Faults(undefined),
      observer: SILENT_OBSERVER,
      laneId: newId('lane'),
      queueLimit: 1000,
      batchLimit: 64,
    });
    const reader = new PgReader(settings, 2, auditCodec);
    const world = new AdminWorld(
      database,
      sql,
      { commands: lanes, reader, newId, proofKeys: proofKeysOf(reader) },
      async () => {
        await lanes.drain();
        await Promise.all([pool.close(), reader.close(), sql.end()]);
        await database.drop();
      },
    );
    await bootstrap(
      bootstrapInput({
        url: database.url,
        audience: AUDIENCE,
        operatorSpiffeId: ROOT,
        operatorJwk: world.root.key.publicKey.jwk,
        commandId: newId('boot'),
        codec: auditCodec,
      }),
    );
    return world;
  }

  close(): Promise<void> {
    return this.closeAll();
  }

  /** Calls a handler as the adapter does. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    context: CallContext,
  ): Promise<MessageShape<O>> {
    const handlers = this.services.get(method.parent.typeName)?.handlers as unknown as Record<
      string,
      Handler
    >;
    const handler = handlers[method.localName] as Handler;
    const answer = await handler(create(method.input, request), context);
    return create(method.output, answer as MessageInitShape<O>);
  }

  context(spiffeId: string, kind: CallerKind, domainId: string, over: Partial<Caller> = {}): CallContext {
    const caller: Caller = {
      spiffeId,
      trustDomain: parseSpiffeId(spiffeId).trustDomain,
      leafDigest: sha256(`leaf of ${spiffeId}`),
      keyThumbprint: `leaf key of ${spiffeId}`,
      notAfter: now() + DAY,
      ...over,
    };
    return { caller, kind, domainId, requestId: newId('req'), signal: new AbortController().signal };
  }

  /** A command as its operator signs it, and what the service answers. */
  async sign(
    domainId: string,
    mutation: MutationInit,
    header: HeaderInit = {},
    signer = this.root,
  ): Promise<string> {
    const issued = now();
    return signCommand(
      {
        header: {
          audience: AUDIENCE,
          incarnation: 1n,
          domainId,
          commandId: newId('command'),
          expectedPolicyRevision: await this.policyRevision(domainId),
          reason: 'a test',
          issuedTime: create(TimestampSchema, microsToTimestamp(issued)),
          expireTime: create(TimestampSchema, microsToTimestamp(issued + 300_000_000n)),
          ...header,
        },
        mutation,
      },
      signer.key,
    );
  }

  async send(domainId: string, commandJws: string, signer = this.root) {
    const context = this.context(signer.spiffeId, 'operator', domainId);
    return this.call(AdminService.method.executeCommand, { commandJws }, context);
  }

  /** Signs and sends a command that rests on the record as it stands, unless the header says otherwise. */
  async execute(domainId: string, mutation: MutationInit, header: HeaderInit = {}, signer = this.root) {
    const send = async (over: { readonly expectedEntityRevision?: bigint }) => {
      const rests = { ...header, ...over } as HeaderInit;
      return this.send(domainId, await this.sign(domainId, mutation, rests, signer), signer);
    };
    try {
      return await send({});
    } catch (error) {
      const refusal = error instanceof Refused ? error.refusal : undefined;
      if (refusal?.reason !== 'REVISION_STALE' || header.expectedEntityRevision !== undefined) throw error;
      try {
        return await send({ expectedEntityRevision: BigInt(refusal.metadata?.['current'] ?? 0) });
      } catch (again) {
        // Then it was not the record that was stale.
        throw again instanceof Refused && again.refusal.reason === 'REVISION_STALE' ? error : again;
      }
    }
  }

  private async policyRevision(domainId: string): Promise<bigint> {
    const sql = 'SELECT policy_revision FROM domains WHERE domain_id = $1';
    const { rows } = await this.sql.query(sql, [domainId]);
    return BigInt(rows[0]?.policy_revision ?? 0);
  }
}

/** What a call was refused for, with what it says is wrong, or `done`. */
export async function refusedFor(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'done';
  } catch (error) {
    const refusal = error instanceof Refused ? error.refusal : refusalOf(error);
    if (!refusal) throw error;
    const detail = refusal.violations?.map(({ field }) => field) ?? Object.values(refusal.metadata ?? {});
    return [refusal.reason, ...detail].join(' ');
  }
}

export function now(): bigint {
  return BigInt(Date.now()) * 1000n;
}
