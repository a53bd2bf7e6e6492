-- A number that no other row ever has: ids are used again after a failover to a replica that was behind, or after a restore.
ALTER TABLE {outbox} ADD COLUMN nonce BIGINT NOT NULL DEFAULT 0;

-- Relays write to it to learn that what they have read is on disk.
ALTER TABLE {outbox_lease} ADD COLUMN barrier BIGINT NOT NULL DEFAULT 0;
