-- The index of identities begins with the event, which is part of each: a new effect is looked for, and put, where those of its
-- event lie. By the digest alone each would be at a random place of an index that may be larger than the memory for it, read for
-- each reservation and written whole into the log after each checkpoint.
CREATE UNIQUE INDEX effects_identity_of_event ON effects (domain_id, event_id, identity_digest);
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX effects_identity;
