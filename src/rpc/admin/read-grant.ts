import type { Grant } from '../../gen/surety/authority/v1/records_pb.js';
import type { Mutation } from '../../ledger/authority/mutations.js';
import { DATA_CLASSES } from '../provenance-codec.js';
import type { Violations } from '../validate.js';
import { MAX_ID_OCTETS, MAX_RESOURCE_OCTETS, readActor, readExact } from './record-fields.js';

const MAX_SET_SIZE = 64;
const MAX_USES = 2n ** 31n - 1n;

/** Reads a grant: five sets of exact values, none empty, no wildcard in any (authority.md, Records: task grant). */
export function readGrant(v: Violations, grant: Grant): Mutation {
  const { actorKind, actorId } = readActor(v, grant.principalId, grant.guestId);
  return {
    kind: 'create_grant',
    grantId: v.id('grant_id', grant.grantId, 1, MAX_ID_OCTETS),
    actorKind,
    actorId,
    harnessId: v.id('harness_id', grant.harnessId, 1, MAX_ID_OCTETS),
    actions: readSet(v, 'actions', grant.actions, MAX_ID_OCTETS),
    resources: readSet(v, 'resources', grant.resources, MAX_RESOURCE_OCTETS),
    inputSources: readSet(v, 'input_sources', grant.inputSources, MAX_ID_OCTETS),
    outputSinks: readSet(v, 'output_sinks', grant.outputSinks, MAX_ID_OCTETS),
    dataClasses: readClasses(v, grant.dataClasses),
    maxUses: v.integer('max_uses', grant.maxUses, 1n, MAX_USES),
    repeatable: grant.repeatable,
    expiresAt: v.time('expire_time', grant.expireTime),
  };
}

function readSet(v: Violations, field: string, values: readonly string[], maxOctets: number): string[] {
  const set = v.list(field, values, 1, MAX_SET_SIZE, (path, value) => readExact(v, path, value, maxOctets));
  if (new Set(set).size !== set.length) v.refuse(field, 'must not hold a value twice');
  return set;
}

function readClasses(v: Violations, values: readonly number[]) {
  const classes = v.list('data_classes', values, 1, MAX_SET_SIZE, (path, value) =>
    v.choice(path, value, DATA_CLASSES),
  );
  if (new Set(classes).size !== classes.length) v.refuse('data_classes', 'must not hold a value twice');
  return classes;
}
