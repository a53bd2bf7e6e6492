-- A number that no other row ever has: ids are used again after a restore.
ALTER TABLE {outbox} ADD COLUMN nonce INTEGER NOT NULL DEFAULT 0;

-- A relay writes to it in its own row to learn that what it has read is on disk.
ALTER TABLE {outbox_relay} ADD COLUMN barrier INTEGER NOT NULL DEFAULT 0;
