import type { Draft } from '../../working-set.js';
import { type ChangedRecord, nextRevision } from '../mutation-rule.js';
import type { DomainRow } from '../records.js';

/** Changes fields of the domain's own row; it is a new revision of it. */
export function changeDomain(draft: Draft, fields: Partial<Omit<DomainRow, 'revision'>>): ChangedRecord {
  const row: DomainRow = { ...draft.domain, ...fields, revision: nextRevision(draft.domain) };
  draft.setDomain(row);
  return { type: 'domain', id: draft.domainId, revision: row.revision };
}
