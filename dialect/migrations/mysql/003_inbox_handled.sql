-- For deleting old rows: in the order of their ids, one with a date in the future would stop it.
ALTER TABLE {inbox} ADD INDEX {bare inbox_handled} (handled);
