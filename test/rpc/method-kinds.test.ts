import type { DescMethod } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CallerKind } from '../../src/ledger/types.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import type { ServiceBinding } from '../../src/rpc/handler.js';
import { CALLERS, readAll, resultOf, type RpcHarness, startRpc, type TestClient } from './harness.js';

/**
 * Who may call what, written down again from api.md, effects.md and actions.md: h(arness), e(xecutor), r(econciler), w(orker),
 * o(wner), O(perator), A(uditor).
 */
const EXPECTED: Readonly<Record<string, string>> = {
  ReserveEffect: 'h',
  StartExecution: 'e',
  MarkUnknown: 'e',
  AcknowledgeTerminal: 'e',
  Reconcile: 'r',
  CancelEffect: 'h',
  CheckRetry: 'herOA',
  GetEffect: 'herOA',
  GetEffectHistory: 'herOA',
  ListEffects: 'rOA',
  WatchEffects: 'rOA',
  ProposeAction: 'hw',
  GateAction: 'hwo',
  RejectAction: 'o',
  AddBoundedGrant: 'o',
  RevokeBoundedGrant: 'o',
  AddReceipt: 'hwo',
  LeaseNext: 'w',
  LeaseObservation: 'w',
  GetDispatchView: 'w',
  BeginDispatch: 'w',
  BeginObservation: 'w',
  DeferObservation: 'w',
  DeferLeased: 'w',
  AcceptAction: 'w',
  VerifyAction: 'w',
  CompleteAction: 'w',
  FailAction: 'w',
  ReapLeases: 'O',
  GetAction: 'hwoOA',
  ListActions: 'hwoOA',
  ListReceipts: 'hwoOA',
  ListEvents: 'hwoOA',
  ListDeadLetters: 'hwoOA',
  WatchActions: 'hwoOA',
  ConsumeNonce: 'herwoOA',
  RegisterOrigin: 'hO',
  DeriveRecord: 'hO',
  GetRecord: 'hOA',
  ListVersions: 'hOA',
  VerifyReference: 'hOA',
  GetLineage: 'hOA',
  ListEntries: 'OA',
  WatchEntries: 'OA',
  VerifyChain: 'OA',
  RenewWorkload: 'erw',
  GetWorkload: 'erwOA',
  ListWorkloads: 'OA',
  WhoAmI: 'herwoOA',
  Decide: 'hO',
  GetDecision: 'hOA',
  ExecuteCommand: 'O',
  PublishEvent: 'h',
  GetEvent: 'h',
  Now: 'O',
  Advance: 'O',
  Check: 'herwoOA',
  List: 'herwoOA',
  Watch: 'herwoOA',
  ServerReflectionInfo: 'O',
};
const LETTER: Readonly<Record<CallerKind, string>> = {
  harness: 'h',
  executor: 'e',
  reconciler: 'r',
  worker: 'w',
  owner: 'o',
  operator: 'O',
  auditor: 'A',
};
/** Administration reads, one pair for each record. */
const expectedOf = ({ name, parent }: DescMethod): string | undefined =>
  EXPECTED[name] ?? (parent.name === 'AdminService' && /^(Get|List)[A-Z]/.test(name) ? 'O' : undefined);

/** Every method of the contract, answering nothing. */
function everything(): ServiceBinding[] {
  return CONTRACT_SERVICES.map((service) => {
    const handlers = service.methods.map(({ localName, methodKind }) => [
      localName,
      methodKind === 'unary' ? async () => ({}) : async function* () {},
    ]);
    return { service, handlers: Object.fromEntries(handlers) };
  });
}

let rpc: RpcHarness;
const clients = new Map<string, TestClient>();
beforeAll(async () => {
  rpc = await startRpc(everything());
  for (const spiffeId of [
    ...Object.values(CALLERS),
    'spiffe://acme.test/nobody',
    'spiffe://surety.test/nobody',
  ]) {
    clients.set(spiffeId, rpc.client(spiffeId));
  }
});
afterAll(() => rpc.stop());

/** Names the domain wherever the contract has a place for it, so that only the kind decides. */
function requestFor(method: DescMethod, kind: CallerKind | undefined): Record<string, unknown> {
  const domainId = kind === 'operator' || kind === 'auditor' ? 'surety.test' : 'acme.test';
  if (method.name === 'VerifyReference') return { reference: { domainId } };
  return method.input.fields.some(({ name }) => name === 'domain_id') ? { domainId } : {};
}

async function call(method: DescMethod, spiffeId: string, kind?: CallerKind): Promise<string> {
  const client = clients.get(spiffeId) as TestClient;
  const request = requestFor(method, kind);
  if (method.methodKind === 'unary') {
    const { code, reason } = await client.call(method, request);
    return reason ?? code;
  }
  if (method.methodKind === 'server_streaming') {
    const { end } = await readAll(client.stream(method, request));
    return end.reason ?? end.code;
  }
  const asIs = (bytes: Buffer): Buffer => bytes;
  const stream = client.client.makeBidiStreamRequest(`/${method.parent.typeName}/${method.name}`, asIs, asIs);
  stream.end();
  stream.resume();
  return new Promise((resolve) => {
    stream.on('end', () => resolve('OK'));
    stream.on('error', (error) => resolve(resultOf(error as never, undefined).reason ?? 'no reason'));
  });
}

const METHODS = CONTRACT_SERVICES.flatMap(({ methods }) => methods);

describe.each(METHODS.map((method) => [`${method.parent.name}/${method.name}`, method] as const))(
  '%s',
  (_, method) => {
    it('is open to its kinds and to nobody else', async () => {
      const expected = expectedOf(method);
      expect(expected, 'api.md says who').toBeDefined();
      for (const [kind, spiffeId] of Object.entries(CALLERS) as [CallerKind, string][]) {
        const open = expected?.includes(LETTER[kind]) === true;
        expect([kind, await call(method, spiffeId, kind)]).toEqual([
          kind,
          open ? 'OK' : 'METHOD_NOT_ALLOWED',
        ]);
      }
      for (const nobody of ['spiffe://acme.test/nobody', 'spiffe://surety.test/nobody']) {
        expect([nobody, await call(method, nobody)]).toEqual([nobody, 'CALLER_UNKNOWN']);
      }
    });
  },
);
