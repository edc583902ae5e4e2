import type { Digest, RecordStatus } from '../types.js';

/** actions.md, Gate validator: how a field of a gate's evidence is read. */
export type GateFieldKind = 'text' | 'expiry' | 'expiry_or_unlimited';

/** What the evidence of a gate may hold besides what every approval has. The three lists belong together, name by name. */
export interface GateShapeRow {
  readonly gateShapeId: string;
  /** Ascending. */
  readonly fieldNames: readonly string[];
  readonly fieldKinds: readonly GateFieldKind[];
  /** The only text that a field may be; empty: any. */
  readonly fieldValues: readonly string[];
  /** Of the names: no two shapes of a domain have the same. */
  readonly fieldsDigest: Digest;
  readonly status: RecordStatus;
  readonly revision: bigint;
}

/** What must hold for every dispatch of a type besides its gate. */
export interface ActionConditionRow {
  readonly actionType: string;
  /** CEL. */
  readonly expression: string;
  readonly status: RecordStatus;
  readonly revision: bigint;
}

/** A tool that the domain knows. */
export interface ToolRow {
  readonly toolName: string;
  /** No bounded grant covers it. */
  readonly nonGrantable: boolean;
  readonly status: RecordStatus;
  readonly revision: bigint;
}
