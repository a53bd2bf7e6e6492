-- Messages that are to be published. state: 0 ready, 1 ready and in an order, 2 delayed until due, 3 set aside with its
-- error, 4 published and kept until due. due is 0 in states 0 and 3, and in 1 unless it is to be tried again then.
CREATE TABLE {outbox} (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    state       INTEGER NOT NULL,
    shard       INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    size        INTEGER NOT NULL,
    message_id  TEXT NOT NULL,
    exchange    TEXT NOT NULL,
    routing_key TEXT NOT NULL,
    order_key   TEXT NOT NULL,
    properties  TEXT NOT NULL,
    headers     TEXT NOT NULL,
    error       TEXT NOT NULL DEFAULT '',
    body        BLOB NOT NULL
);
CREATE INDEX {bare outbox_work} ON {outbox} (state, shard, due, id);
CREATE INDEX {bare outbox_delayed} ON {outbox} (message_id) WHERE state = 2;

-- Who may publish the messages of a shard.
CREATE TABLE {outbox_lease} (
    shard   INTEGER PRIMARY KEY,
    owner   TEXT NOT NULL,
    term    INTEGER NOT NULL,
    expires INTEGER NOT NULL
);
INSERT INTO {outbox_lease} (shard, owner, term, expires) VALUES
    (0, '', 0, 0), (1, '', 0, 0), (2, '', 0, 0), (3, '', 0, 0), (4, '', 0, 0), (5, '', 0, 0), (6, '', 0, 0), (7, '', 0, 0),
    (8, '', 0, 0), (9, '', 0, 0), (10, '', 0, 0), (11, '', 0, 0), (12, '', 0, 0), (13, '', 0, 0), (14, '', 0, 0), (15, '', 0, 0);

-- The relays that live, and whether they want to be notified of new messages.
CREATE TABLE {outbox_relay} (
    owner     TEXT PRIMARY KEY,
    expires   INTEGER NOT NULL,
    listening INTEGER NOT NULL
) WITHOUT ROWID;

-- Messages whose effects are in this database. message_id is the bytes of the message's id.
CREATE TABLE {inbox} (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    handled    INTEGER NOT NULL,
    consumer   TEXT NOT NULL,
    message_id BLOB NOT NULL
);
CREATE UNIQUE INDEX {bare inbox_message} ON {inbox} (consumer, message_id);
