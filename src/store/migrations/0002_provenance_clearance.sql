-- What a derivation without taint rests on: two signed receipts, a review and a scan, by two approvers, each used once
-- (provenance-audit-replay.md, Provenance). The key is kept beside the signature, so that it verifies years later.
CREATE TABLE clearance_receipts (
  domain_id text COLLATE "C" NOT NULL,
  approver_spiffe_id text COLLATE "C" NOT NULL,
  receipt_id text COLLATE "C" NOT NULL,
  purpose text COLLATE "C" NOT NULL,
  provenance_digest bytea NOT NULL,
  statement_digest bytea NOT NULL,
  signing_key_jwk text COLLATE "C" NOT NULL,
  signing_key_thumbprint text COLLATE "C" NOT NULL,
  jws bytea NOT NULL,
  issued_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  used_at bigint NOT NULL,
  CONSTRAINT clearance_receipts_pkey PRIMARY KEY (domain_id, approver_spiffe_id, receipt_id),
  CONSTRAINT clearance_receipts_purpose CHECK (purpose IN ('review', 'scan')),
  CONSTRAINT clearance_receipts_digests CHECK (octet_length(provenance_digest) = 32 AND octet_length(statement_digest) = 32)
);

-- One review and one scan of a record, and no approver, and no key, for both.
CREATE UNIQUE INDEX clearance_receipts_purpose_once ON clearance_receipts (domain_id, provenance_digest, purpose);
CREATE UNIQUE INDEX clearance_receipts_approver_once ON clearance_receipts (domain_id, provenance_digest, approver_spiffe_id);
CREATE UNIQUE INDEX clearance_receipts_key_once ON clearance_receipts (domain_id, provenance_digest, signing_key_thumbprint);

-- Whose key signed.
CREATE INDEX owners_signing_key ON owners (domain_id, signing_key_thumbprint);
CREATE INDEX operators_signing_key ON operators (domain_id, signing_key_thumbprint);

-- The walk from a record to what was made of it reads this index alone, in the order of the digests.
CREATE UNIQUE INDEX provenance_parents_child ON provenance_parents (domain_id, parent_digest, provenance_digest);
-- Of no use any more; the statements behind it hold the lock for milliseconds.
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX provenance_parents_parent;

CREATE TRIGGER clearance_receipts_append_only BEFORE UPDATE OR DELETE ON clearance_receipts
  FOR EACH ROW EXECUTE FUNCTION surety_append_only();
CREATE TRIGGER clearance_receipts_no_truncate BEFORE TRUNCATE ON clearance_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only();

-- Taint never disappears without its two receipts. Looked at when the transaction ends: both are written in it.
CREATE FUNCTION surety_cleared_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT NEW.reviewed OR NEW.scan_pending OR cardinality(NEW.parent_digests) = 0 OR 2 <> (
    SELECT count(*) FROM clearance_receipts
    WHERE domain_id = NEW.domain_id AND provenance_digest = NEW.provenance_digest
  ) THEN
    RAISE EXCEPTION 'only a derivation with a review and a scan is without taint' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER provenance_records_cleared AFTER INSERT ON provenance_records
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NOT NEW.tainted OR NEW.reviewed OR NOT NEW.scan_pending)
  EXECUTE FUNCTION surety_cleared_guard();

GRANT SELECT ON clearance_receipts TO surety_service, surety_archive;
GRANT INSERT ON clearance_receipts TO surety_service;
