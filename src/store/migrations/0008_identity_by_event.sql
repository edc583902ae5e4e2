-- The index of identities begins with the event, which is part of each: a new effect is looked for, and put, where those of its
-- event lie. By the digest alone each would be at a random place of an index that may be larger than the memory for it, read for
-- each reservation and written whole into the log after each checkpoint.
-- The event stands in it as an expression, so that no other index begins as it does: between two that do, a plan that is made
-- while each event has few effects takes the narrower one, and goes on to read all effects of an event when there are thousands.
CREATE UNIQUE INDEX effects_identity_of_event ON effects (domain_id, (event_id || ''), identity_digest);
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX effects_identity;
