-- What has not expired of a SPIFFE ID is a range of the index, however much has. The key stands at its end, so that which one lasts
-- longest is never a matter of chance.
CREATE INDEX registrations_lasting ON registrations (domain_id, spiffe_id, expires_at, registration_id);
CREATE INDEX credentials_lasting ON credentials (domain_id, spiffe_id, expires_at, credential_id);
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX registrations_spiffe_id;
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX credentials_spiffe_id;
