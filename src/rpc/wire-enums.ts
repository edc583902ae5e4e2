import { BreakerState as WireBreaker } from '../gen/surety/authority/v1/admission_pb.js';
import { OperatorRole as WireOperatorRole } from '../gen/surety/authority/v1/records_pb.js';
import {
  CertificateBinding as WireBinding,
  CallerKind as WireCallerKind,
  WorkloadRole as WireRole,
  RecordStatus as WireStatus,
} from '../gen/surety/identity/v1/workload_pb.js';
import type { BreakerState } from '../ledger/admission/records.js';
import type {
  CallerKind,
  CertificateBinding,
  OperatorRole,
  RecordStatus,
  WorkloadRole,
} from '../ledger/types.js';

/** Enums of the contract and the names that they have in the rows, both ways. */

export const STATUSES: Readonly<Record<number, RecordStatus>> = {
  [WireStatus.ACTIVE]: 'active',
  [WireStatus.SUSPENDED]: 'suspended',
  [WireStatus.REVOKED]: 'revoked',
};
export const WIRE_STATUSES: Readonly<Record<RecordStatus, WireStatus>> = {
  active: WireStatus.ACTIVE,
  suspended: WireStatus.SUSPENDED,
  revoked: WireStatus.REVOKED,
};

export const BINDINGS: Readonly<Record<number, CertificateBinding>> = {
  [WireBinding.SPIFFE_ID]: 'spiffe_id',
  [WireBinding.CERTIFICATE]: 'certificate',
};
export const WIRE_BINDINGS: Readonly<Record<CertificateBinding, WireBinding>> = {
  spiffe_id: WireBinding.SPIFFE_ID,
  certificate: WireBinding.CERTIFICATE,
};

export const WORKLOAD_ROLES: Readonly<Record<number, WorkloadRole>> = {
  [WireRole.EFFECT_EXECUTOR]: 'effect_executor',
  [WireRole.EFFECT_RECONCILER]: 'effect_reconciler',
  [WireRole.ACTION_WORKER]: 'action_worker',
};
export const WIRE_WORKLOAD_ROLES: Readonly<Record<WorkloadRole, WireRole>> = {
  effect_executor: WireRole.EFFECT_EXECUTOR,
  effect_reconciler: WireRole.EFFECT_RECONCILER,
  action_worker: WireRole.ACTION_WORKER,
};

export const OPERATOR_ROLES: Readonly<Record<number, OperatorRole>> = {
  [WireOperatorRole.ADMIN]: 'ADMIN',
  [WireOperatorRole.REGISTRAR]: 'REGISTRAR',
  [WireOperatorRole.FREEZER]: 'FREEZER',
  [WireOperatorRole.AUDITOR]: 'AUDITOR',
};
export const WIRE_OPERATOR_ROLES: Readonly<Record<OperatorRole, WireOperatorRole>> = {
  ADMIN: WireOperatorRole.ADMIN,
  REGISTRAR: WireOperatorRole.REGISTRAR,
  FREEZER: WireOperatorRole.FREEZER,
  AUDITOR: WireOperatorRole.AUDITOR,
};

export const WIRE_CALLER_KINDS: Readonly<Record<CallerKind, WireCallerKind>> = {
  harness: WireCallerKind.HARNESS,
  executor: WireCallerKind.EXECUTOR,
  reconciler: WireCallerKind.RECONCILER,
  worker: WireCallerKind.WORKER,
  owner: WireCallerKind.OWNER,
  operator: WireCallerKind.OPERATOR,
  auditor: WireCallerKind.AUDITOR,
};

export const WIRE_BREAKERS: Readonly<Record<BreakerState, WireBreaker>> = {
  closed: WireBreaker.CLOSED,
  open: WireBreaker.OPEN,
  half_open: WireBreaker.HALF_OPEN,
};
