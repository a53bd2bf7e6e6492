-- For deleting old rows: in the order of their ids, one with a date in the future would stop it.
CREATE INDEX {bare inbox_handled} ON {inbox} (handled);
