import { createHash } from 'node:crypto';
import { acceptAction } from '../../../src/ledger/action/accept-action.js';
import { addBoundedGrant } from '../../../src/ledger/action/add-bounded-grant.js';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import type {
  AddBoundedGrant,
  BeginDispatch,
  DispatchChecks,
  GateAction,
  LeaseNext,
  ProposeAction,
  ReceiptContent,
} from '../../../src/ledger/action/commands.js';
import { gateAction } from '../../../src/ledger/action/gate-action.js';
import { leaseNext } from '../../../src/ledger/action/lease-next.js';
import { proposeAction } from '../../../src/ledger/action/propose-action.js';
import type { ActionReceiptRow, ActionRow } from '../../../src/ledger/action/records.js';
import { verifyAction } from '../../../src/ledger/action/verify-action.js';
import type { CommandBase, Decision, Outcome } from '../../../src/ledger/decision.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { RegistrationRow } from '../../../src/ledger/identity/records.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { type Caller, DAY, HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { FACTS, MemoryStore } from '../../simulation/memory-store.js';

/**
 * One domain in memory with a harness that proposes, an owner who approves, and two workers; every decision runs as the lane
 * runs it: what it reads is gathered, what it writes is held against the rules of the schema.
 */

export const DOMAIN = 'acme.test';
export const PAYLOAD = Buffer.from('{"tool_name":"mailer","to":"a@b.c"}');
export const EXECUTION_DIGEST = sha256('the exact request');

export function callerOf(path: string): Caller {
  const spiffeId = `spiffe://${DOMAIN}/${path}`;
  return {
    spiffeId,
    trustDomain: DOMAIN,
    leafDigest: sha256(`leaf of ${spiffeId}`),
    keyThumbprint: `leaf key of ${path}`,
    notAfter: 10_000_000_000_000_000n,
  };
}

export const HARNESS = callerOf('harness/planner');
export const OWNER = callerOf('owner/olga');
export const WORKER = callerOf('worker/mailer');
export const OTHER_WORKER = callerOf('worker/other');
export const OWNER_KEY = 'olga-key';

/** Evidence of an approval by default: a message that is delivered. */
export const DELIVERY = {
  channel: 'mail',
  thread: 'thread-1',
  event: 'event-1',
  event_key: 'key-1',
  delivery: 'delivery-1',
  delivery_message: 'message-1',
  binding_method: 'reply',
};

type Over<T> = Partial<T>;

export class ActionWorld {
  readonly store = new MemoryStore(DOMAIN);
  private made = 0;

  constructor() {
    this.seedHarness();
    this.seedOwner();
    this.seedWorkers();
    this.store.put('tools', { toolName: 'mailer', nonGrantable: false, status: 'active', revision: 1n });
  }

  get now(): bigint {
    return this.store.now;
  }

  advance(by: bigint): void {
    this.store.now += by;
  }

  newId(prefix: string): string {
    this.made += 1;
    return `${prefix}_${String(this.made).padStart(6, '0')}`;
  }

  /** Runs one decision in a batch of its own. */
  run<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
  ): Outcome<Reply> {
    const set = this.store.gather([decision.reads(command)]);
    const outcome = runDecision(set, decision, command);
    this.store.commit(set.changes());
    return outcome;
  }

  /** Runs several in one batch. */
  runTogether<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    commands: readonly Command[],
  ): Outcome<Reply>[] {
    const set = this.store.gather(commands.map((command) => decision.reads(command)));
    const outcomes = commands.map((command) => runDecision(set, decision, command));
    this.store.commit(set.changes());
    return outcomes;
  }

  /** The reply of a command that must be done. */
  done<Command extends CommandBase, Reply>(decision: Decision<Command, Reply>, command: Command): Reply {
    const outcome = this.run(decision, command);
    if (!outcome.ok) throw new Error(`${decision.kind}: ${refusalText(outcome)}`);
    return outcome.reply;
  }

  /** What a command is refused for, with its rule or field, or `done`. Nothing is written where it is refused. */
  refused<Command extends CommandBase, Reply>(decision: Decision<Command, Reply>, command: Command): string {
    const { head } = this.store;
    const outcome = this.run(decision, command);
    if (outcome.ok) return 'done';
    if (this.store.head !== head) throw new Error('a refusal left a trace');
    return refusalText(outcome);
  }

  action(actionId: string): ActionRow {
    const row = this.store.get('actions', actionId);
    if (!row) throw new Error(`no action ${actionId}`);
    return row;
  }

  events(actionId: string): string[] {
    return this.store
      .all('action_events')
      .filter((row) => row.actionId === actionId)
      .sort((a, b) => Number(a.eventNumber - b.eventNumber))
      .map((row) => row.kind);
  }

  receipts(actionId: string, receiptClass: string): ActionReceiptRow[] {
    return this.store
      .all('action_receipts')
      .filter((row) => row.actionId === actionId && row.receiptClass === receiptClass);
  }

  // --- commands

  base(): CommandBase {
    return { domainId: DOMAIN, commandId: this.newId('req') };
  }

  propose(over: Over<ProposeAction> = {}): ProposeAction {
    return {
      ...this.base(),
      caller: HARNESS,
      kind: 'harness',
      actionId: this.newId('act'),
      idempotencyKey: this.newId('key'),
      source: 'inbox',
      sourceRef: 'mail-1',
      type: 'mail.send',
      toolName: 'mailer',
      payload: PAYLOAD,
      proposalTtl: null,
      ...over,
    };
  }

  /** The evidence of an approval, as an owner writes it; `over` may take members away with undefined. */
  evidence(action: ActionRow, ids: { approvalId: string; decisionId: string }, over: object = {}): Buffer {
    const members = {
      audience: FACTS.audience,
      incarnation: Number(FACTS.incarnation),
      domain_id: DOMAIN,
      action_id: action.actionId,
      action_digest: action.actionDigest.toString('hex'),
      payload_digest: action.payloadDigest.toString('hex'),
      approval_id: ids.approvalId,
      decision_id: ids.decisionId,
      decision: 'approved',
      authority: 'owner',
      revision: 1,
      decided_at: Number(this.now),
      expires_at: Number(this.now + HOUR),
      ...DELIVERY,
      ...over,
    };
    return Buffer.from(JSON.stringify(members));
  }

  gate(action: ActionRow, over: Over<GateAction> = {}, evidence: object = {}): GateAction {
    const ids = { approvalId: this.newId('appr'), decisionId: this.newId('dec') };
    const bytes = this.evidence(action, { ...ids, ...over }, evidence);
    return {
      ...this.base(),
      caller: OWNER,
      kind: 'owner',
      actionId: action.actionId,
      receiptKey: this.newId('gate'),
      ...ids,
      evidence: bytes,
      signature: { jws: Buffer.from(`jws over ${sha256(bytes).toString('hex')}`), keyThumbprint: OWNER_KEY },
      ...over,
    };
  }

  lease(over: Over<LeaseNext> = {}): LeaseNext {
    return {
      ...this.base(),
      caller: WORKER,
      kind: 'worker',
      requestId: this.newId('lease-request'),
      scope: { source: null, sourcePrefix: null, types: [], actionIds: [] },
      states: ['GATED', 'ACCEPTED', 'VERIFIED'],
      duration: MINUTE,
      ...over,
    };
  }

  /** What a leaseholder's call begins with. */
  held(action: ActionRow) {
    return {
      ...this.base(),
      caller: action.leaseHolder === OTHER_WORKER.spiffeId ? OTHER_WORKER : WORKER,
      kind: 'worker' as const,
      actionId: action.actionId,
      leaseToken: action.leaseToken ?? 0n,
    };
  }

  /** What the rpc layer checks of the stored gate before the transaction. */
  checks(actionId: string): DispatchChecks {
    const [gate] = this.receipts(actionId, 'gate');
    if (!gate?.signature) return { signature: null, condition: null };
    return {
      signature: {
        signatureDigest: sha256(gate.signature),
        evidenceDigest: gate.evidenceDigest,
        keyThumbprint: gate.signingKeyThumbprint ?? '',
        verified: true,
      },
      condition: null,
    };
  }

  dispatch(action: ActionRow, over: Over<BeginDispatch> = {}): BeginDispatch {
    const [gate] = this.receipts(action.actionId, 'gate');
    return {
      ...this.held(action),
      source: action.source,
      sourceRef: action.sourceRef,
      type: action.type,
      payload: action.payload,
      gateReceiptKey: gate?.receiptKey ?? 'none',
      approvalId: gate?.externalId ?? 'none',
      decisionId: gate?.decisionId ?? 'none',
      executionDigest: EXECUTION_DIGEST,
      observationWindow: 10n * MINUTE,
      maxObservations: 2,
      authorization: null,
      effectId: null,
      checks: this.checks(action.actionId),
      ...over,
    };
  }

  receipt(over: Over<ReceiptContent> = {}): ReceiptContent {
    return {
      receiptKey: this.newId('receipt'),
      kind: 'provider',
      status: 'taken',
      externalId: 'provider-1',
      evidence: Buffer.from('{"id":"provider-1"}'),
      ...over,
    };
  }

  grant(over: Over<AddBoundedGrant['statement']> = {}): AddBoundedGrant {
    const statement = {
      audience: FACTS.audience,
      incarnation: FACTS.incarnation,
      domainId: DOMAIN,
      boundedGrantId: this.newId('bounded'),
      ownerSpiffeId: OWNER.spiffeId,
      sources: ['inbox'],
      types: ['mail.send'],
      tools: ['mailer'],
      maxUses: 2n,
      expiresAt: this.now + 2n * HOUR,
      issuedAt: this.now,
      ...over,
    };
    const statementDigest = createHash('sha256')
      .update(JSON.stringify(statement, (_, value) => (typeof value === 'bigint' ? `${value}` : value)))
      .digest();
    return {
      ...this.base(),
      caller: OWNER,
      kind: 'owner',
      statement,
      statementDigest,
      keyThumbprint: OWNER_KEY,
      jws: Buffer.from(`jws of ${statement.boundedGrantId}`),
    };
  }

  /** A bounded grant that is stored. */
  added(over: Over<AddBoundedGrant['statement']> = {}): string {
    return this.done(addBoundedGrant, this.grant(over)).grant.boundedGrantId;
  }

  /** The shape's members under a bounded grant, in place of a delivery's. */
  underGrant(boundedGrantId: string, over: object = {}): object {
    const nothing = Object.fromEntries(Object.keys(DELIVERY).map((name) => [name, undefined]));
    const expiresAt = this.store.get('bounded_grants', boundedGrantId)?.expiresAt ?? null;
    return {
      ...nothing,
      grant_id: boundedGrantId,
      source_request: 'mail-1',
      grant_expires_at: expiresAt === null ? 'unlimited' : Number(expiresAt),
      binding_method: 'bounded_grant',
      ...over,
    };
  }

  // --- actions that have come so far

  proposed(over: Over<ProposeAction> = {}): ActionRow {
    return this.done(proposeAction, this.propose(over)).action;
  }

  gated(over: Over<ProposeAction> = {}, evidence: object = {}): ActionRow {
    return this.done(gateAction, this.gate(this.proposed(over), {}, evidence)).action;
  }

  /** Leased by the worker, whatever else is there. */
  leased(action: ActionRow, over: Over<LeaseNext> = {}): ActionRow {
    const scope = { source: null, sourcePrefix: null, types: [], actionIds: [action.actionId] };
    const { leased } = this.done(leaseNext, this.lease({ scope, ...over }));
    if (!leased) throw new Error('nothing was ready');
    return leased.action;
  }

  /** Gated and leased: ready for its dispatch. */
  heldForDispatch(over: Over<ProposeAction> = {}, evidence: object = {}): ActionRow {
    return this.leased(this.gated(over, evidence));
  }

  dispatched(over: Over<BeginDispatch> = {}): ActionRow {
    return this.done(beginDispatch, this.dispatch(this.heldForDispatch(), over)).action;
  }

  accepted(): ActionRow {
    const action = this.dispatched();
    return this.done(acceptAction, { ...this.held(action), receipt: this.receipt() }).action;
  }

  verified(): ActionRow {
    const action = this.accepted();
    const witnessReceiptKeys = [action.acceptanceReceiptKey ?? ''];
    return this.done(verifyAction, { ...this.held(action), witnessReceiptKeys, receipt: null }).action;
  }

  // --- seeds

  private seedHarness(): void {
    const record = { status: 'active', revision: 1n } as const;
    this.store.put('callers', { spiffeId: HARNESS.spiffeId, kind: 'harness', refId: 'planner' });
    this.store.put('principals', { principalId: 'paula', ...record });
    this.store.put('harnesses', {
      harnessId: 'planner',
      ownerKind: 'principal',
      ownerId: 'paula',
      assurance: 'attested',
      credentialEpoch: 1n,
      ...record,
    });
    this.store.put('credentials', {
      credentialId: 'planner-1',
      harnessId: 'planner',
      credentialEpoch: 1n,
      spiffeId: HARNESS.spiffeId,
      binding: 'spiffe_id',
      certificateDigest: null,
      notBefore: 0n,
      expiresAt: this.now + 3650n * DAY,
      ...record,
    });
  }

  private seedOwner(): void {
    this.store.put('callers', { spiffeId: OWNER.spiffeId, kind: 'owner', refId: OWNER.spiffeId });
    this.store.put('owners', {
      spiffeId: OWNER.spiffeId,
      signingKeyJwk: '{}',
      signingKeyThumbprint: OWNER_KEY,
      sourceScopes: ['*'],
      typeScopes: ['*'],
      status: 'active',
      revision: 1n,
    });
  }

  /** Both workers, registered now and for a year. */
  seedWorkers(): void {
    for (const caller of [WORKER, OTHER_WORKER]) this.seedWorker(caller);
  }

  seedWorker(caller: Caller, over: Over<RegistrationRow> = {}): void {
    const name = caller.spiffeId.split('/').at(-1) ?? '';
    this.store.put('callers', { spiffeId: caller.spiffeId, kind: 'worker', refId: caller.spiffeId });
    this.store.put('registrations', {
      registrationId: `reg-${name}`,
      workloadId: `worker:${name}`,
      role: 'action_worker',
      recipientScope: '*',
      processId: '1',
      processStartTime: 1n,
      sessionId: 'session',
      spiffeId: caller.spiffeId,
      certificateBinding: 'spiffe_id',
      certificateDigest: null,
      proofKeyThumbprint: `proof key of ${name}`,
      credentialEpoch: 1n,
      revocationEpoch: 1n,
      parentEventId: null,
      grantId: null,
      sinks: [],
      status: 'active',
      issuedAt: this.now - SECOND,
      expiresAt: this.now + 365n * DAY,
      renewableUntil: null,
      firstIssuedAt: this.now - SECOND,
      possessionDigest: sha256('possession'),
      updatedAt: this.now,
      ...over,
    });
  }
}

function refusalText(outcome: Extract<Outcome<unknown>, { ok: false }>): string {
  const { reason, metadata = {}, violations = [] } = outcome.refusal;
  const what = [...Object.values(metadata), ...violations.map(({ field }) => field)];
  return [reason, ...what].join(' ');
}
