-- What a store that has grown must not make dearer (bench.md, B8): each sweep reads a bounded part of an index of its own, and no
-- index is kept that nothing is found by.

-- Effects that are not settled, by their grant: the sweep walks them in this order, page by page, and a reconciler's
-- registration is held against those of its grant and event.
CREATE INDEX effects_unsettled ON effects (domain_id, grant_id, event_id, effect_id)
  WHERE state IN ('PREPARED', 'EXECUTING', 'UNKNOWN');
-- The statements behind it hold the lock for milliseconds; nothing looks for what they dropped any more.
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX effects_prepared_grant;

-- A success that holds its key is found as the holder; this is about those that let it go, since they may be repeated.
CREATE INDEX effects_key_let_go ON effects (domain_id, sink, key_digest) WHERE state = 'SUCCEEDED' AND NOT holds_key;
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX effects_key_succeeded;
