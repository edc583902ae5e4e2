import { sha256 } from '../../../src/ledger/encoding.js';
import {
  type DerivedContent,
  derivedRecord,
  type StepFields,
} from '../../../src/ledger/provenance/derivation.js';
import type { ProvenanceRow, ProvenanceStepRow } from '../../../src/ledger/provenance/records.js';
import { referenceOf } from '../../../src/ledger/provenance/verify-reference.js';
import type { EffectWorld } from '../../support/effect-world.js';
import { DOMAIN } from '../../support/effect-world.js';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';
import { eventRecord } from './provenance-fixture.js';

/** Rows of a graph of records, each whole under its digest, as they will be stored. */
export class GraphRows {
  readonly records = new Map<string, ProvenanceRow>();
  private readonly steps: ProvenanceStepRow[] = [];

  /** An artifact without parents. */
  origin(name: string): void {
    this.records.set(
      name,
      eventRecord({ objectType: 'artifact', objectId: name, contentDigest: sha256(name) }),
    );
  }

  /** A model output of these parents. */
  derived(
    name: string,
    parents: readonly string[],
    over: Partial<DerivedContent> = {},
    step: Partial<StepFields> = {},
  ): void {
    const rows = parents.map((parent) => this.get(parent));
    const { record, steps } = derivedRecord(
      DOMAIN,
      {
        objectType: 'model_output',
        objectId: name,
        version: 1n,
        predecessorDigest: null,
        contentDigest: sha256(name),
        classification: 2,
        allowedSinks: [],
        policyRevision: 1n,
        parents: rows.map((row) => referenceOf(DOMAIN, row)),
        steps: [
          {
            kind: 'model',
            operation: 'summarize',
            implementation: 'llm',
            implementationVersion: '7',
            executor: 'planner',
            inputDigests: rows.map((row) => row.contentDigest),
            outputDigest: sha256(name),
            startedAt: FIXTURE_NOW,
            completedAt: FIXTURE_NOW,
            ...step,
          },
        ],
        ...over,
      },
      { policyRevision: 1n, recordedAt: FIXTURE_NOW, cleared: false },
    );
    this.records.set(name, record);
    this.steps.push(...steps);
  }

  get(name: string): ProvenanceRow {
    const row = this.records.get(name);
    if (!row) throw new Error(`no record ${name}`);
    return row;
  }

  /** The names of records by their digest. */
  nameOf(digest: Uint8Array): string {
    const found = [...this.records].find(([, row]) => row.provenanceDigest.equals(digest));
    return found?.[0] ?? 'unknown';
  }

  async store(world: EffectWorld): Promise<void> {
    const rows = [...this.records.values()];
    await world.seed('provenance_records', rows);
    await world.seed(
      'provenance_parents',
      rows.flatMap(({ provenanceDigest, parentDigests }) =>
        parentDigests.map((parentDigest) => ({ provenanceDigest, parentDigest })),
      ),
    );
    await world.seed('provenance_steps', this.steps);
  }
}
