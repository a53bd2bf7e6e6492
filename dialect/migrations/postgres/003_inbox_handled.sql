-- rehop: outside of a transaction
-- For deleting old rows: in the order of their ids, one with a date in the future would stop it.
DROP INDEX CONCURRENTLY IF EXISTS {inbox_handled};
CREATE INDEX CONCURRENTLY {bare inbox_handled} ON {inbox} (handled);
