-- One row, which every transaction that writes to the index changes first: so they run one after the other, and counters and the audit
-- cannot disagree with what they count.
CREATE TABLE {triage_turn} (
    id   INTEGER NOT NULL PRIMARY KEY,
    turn INTEGER NOT NULL
);
INSERT INTO {triage_turn} (id, turn) VALUES (1, 0);

-- Failed queues. failed is the number of messages in state 0. generation is the number of the last sweep that has begun.
CREATE TABLE {triage_queue} (
    number     INTEGER NOT NULL PRIMARY KEY,
    name       BLOB NOT NULL,
    generation INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    swept      INTEGER NOT NULL,
    UNIQUE (name)
);

-- Groups of messages with the same cause, and how many messages they have in each state. state: 0 open, 1 acknowledged, 2 resolved,
-- 3 ignored, 4 regressed. decided is when the state changed last.
CREATE TABLE {triage_group} (
    number      INTEGER NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    version     INTEGER NOT NULL,
    queue       BLOB NOT NULL,
    kind        BLOB NOT NULL,
    title       BLOB NOT NULL,
    sample      BLOB NOT NULL,
    state       INTEGER NOT NULL,
    decided     INTEGER NOT NULL,
    assignee    BLOB NOT NULL,
    note        BLOB NOT NULL,
    first_seen  INTEGER NOT NULL,
    last_seen   INTEGER NOT NULL,
    hosts       BLOB NOT NULL,
    versions    BLOB NOT NULL,
    total       INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    kept        INTEGER NOT NULL,
    replayed    INTEGER NOT NULL,
    succeeded   INTEGER NOT NULL,
    discarded   INTEGER NOT NULL,
    gone        INTEGER NOT NULL,
    UNIQUE (fingerprint)
);
CREATE INDEX {bare triage_group_seen} ON {triage_group} (last_seen, number);

-- Failures of a group's messages per hour, by the time of the failure.
CREATE TABLE {triage_hour} (
    group_number INTEGER NOT NULL,
    hour         INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    PRIMARY KEY (group_number, hour)
) WITHOUT ROWID;

-- Messages. id begins with the time of the failure, so that it is also the order of lists. state: 0 failed, 1 kept, 2 replayed,
-- 3 succeeded, 4 discarded, 5 gone. failure is the time of the failure as the message has it, and ordered the one that lists use;
-- digest is a hash of what else distinguishes failures.
-- seen is the generation of the last sweep that has found it, born that in which the failure was recorded.
CREATE TABLE {triage_message} (
    id           INTEGER NOT NULL PRIMARY KEY,
    lineage      BLOB NOT NULL,
    ordinal      INTEGER NOT NULL,
    group_number INTEGER NOT NULL,
    queue_number INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    partial      INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    replays      INTEGER NOT NULL,
    failure      INTEGER NOT NULL,
    digest       INTEGER NOT NULL,
    ordered      INTEGER NOT NULL,
    first_failed INTEGER NOT NULL,
    changed      INTEGER NOT NULL,
    seen         INTEGER NOT NULL,
    born         INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    message_id   BLOB NOT NULL,
    queue        BLOB NOT NULL,
    exchange     BLOB NOT NULL,
    routing_key  BLOB NOT NULL,
    kind         BLOB NOT NULL,
    host         BLOB NOT NULL,
    version      BLOB NOT NULL,
    run          BLOB NOT NULL,
    error        BLOB NOT NULL,
    UNIQUE (lineage, ordinal)
);
CREATE INDEX {bare triage_message_queue} ON {triage_message} (queue_number, state, id);
CREATE INDEX {bare triage_message_state} ON {triage_message} (state, id);
CREATE INDEX {bare triage_message_partial} ON {triage_message} (id) WHERE partial = 1;

-- What lists do not show of a message.
CREATE TABLE {triage_content} (
    id         INTEGER NOT NULL PRIMARY KEY,
    properties BLOB NOT NULL,
    headers    BLOB NOT NULL,
    stack      BLOB NOT NULL,
    body       BLOB NOT NULL
);

-- The terms by which messages are found. rehop computes them.
CREATE VIRTUAL TABLE {triage_terms} USING fts5 (terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

-- What operators did. hash is that of this row and of the one before.
CREATE TABLE {triage_audit} (
    number  INTEGER NOT NULL PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   BLOB NOT NULL,
    action  BLOB NOT NULL,
    subject BLOB NOT NULL,
    details BLOB NOT NULL,
    hash    BLOB NOT NULL
);
