-- One row, which every transaction that writes to the index changes first: so they run one after the other, and counters and the audit
-- cannot disagree with what they count.
CREATE TABLE {triage_turn} (
    id   BIGINT NOT NULL PRIMARY KEY,
    turn BIGINT NOT NULL
);
INSERT INTO {triage_turn} (id, turn) VALUES (1, 0);

-- Failed queues. failed is the number of messages in state 0. generation is the number of the last sweep that has begun.
CREATE TABLE {triage_queue} (
    number     BIGINT NOT NULL PRIMARY KEY,
    name       BYTEA NOT NULL,
    generation BIGINT NOT NULL,
    failed     BIGINT NOT NULL,
    swept      BIGINT NOT NULL,
    UNIQUE (name)
);

-- Groups of messages with the same cause, and how many messages they have in each state. state: 0 open, 1 acknowledged, 2 resolved,
-- 3 ignored, 4 regressed. decided is when the state changed last.
CREATE TABLE {triage_group} (
    number      BIGINT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    version     BIGINT NOT NULL,
    queue       BYTEA NOT NULL,
    kind        BYTEA NOT NULL,
    title       BYTEA NOT NULL,
    sample      BYTEA NOT NULL,
    state       SMALLINT NOT NULL,
    decided     BIGINT NOT NULL,
    assignee    BYTEA NOT NULL,
    note        BYTEA NOT NULL,
    first_seen  BIGINT NOT NULL,
    last_seen   BIGINT NOT NULL,
    hosts       BYTEA NOT NULL,
    versions    BYTEA NOT NULL,
    total       BIGINT NOT NULL,
    failed      BIGINT NOT NULL,
    kept        BIGINT NOT NULL,
    replayed    BIGINT NOT NULL,
    succeeded   BIGINT NOT NULL,
    discarded   BIGINT NOT NULL,
    gone        BIGINT NOT NULL,
    UNIQUE (fingerprint)
);
CREATE INDEX {bare triage_group_seen} ON {triage_group} (last_seen, number);

-- Failures of a group's messages per hour, by the time of the failure.
CREATE TABLE {triage_hour} (
    group_number BIGINT NOT NULL,
    hour         BIGINT NOT NULL,
    failures     BIGINT NOT NULL,
    PRIMARY KEY (group_number, hour)
);

-- Messages. id begins with the time of the failure, so that it is also the order of lists. state: 0 failed, 1 kept, 2 replayed,
-- 3 succeeded, 4 discarded, 5 gone. failure is the time of the failure as the message has it, and ordered the one that lists use;
-- digest is a hash of what else distinguishes failures.
-- seen is the generation of the last sweep that has found it, born that in which the failure was recorded.
CREATE TABLE {triage_message} (
    id           BIGINT NOT NULL PRIMARY KEY,
    lineage      BYTEA NOT NULL,
    ordinal      BIGINT NOT NULL,
    group_number BIGINT NOT NULL,
    queue_number BIGINT NOT NULL,
    state        SMALLINT NOT NULL,
    partial      SMALLINT NOT NULL,
    attempts     BIGINT NOT NULL,
    replays      BIGINT NOT NULL,
    failure      BIGINT NOT NULL,
    digest       BIGINT NOT NULL,
    ordered      BIGINT NOT NULL,
    first_failed BIGINT NOT NULL,
    changed      BIGINT NOT NULL,
    seen         BIGINT NOT NULL,
    born         BIGINT NOT NULL,
    size         BIGINT NOT NULL,
    message_id   BYTEA NOT NULL,
    queue        BYTEA NOT NULL,
    exchange     BYTEA NOT NULL,
    routing_key  BYTEA NOT NULL,
    kind         BYTEA NOT NULL,
    host         BYTEA NOT NULL,
    version      BYTEA NOT NULL,
    run          BYTEA NOT NULL,
    error        BYTEA NOT NULL,
    UNIQUE (lineage, ordinal)
) WITH (fillfactor = 90);
CREATE INDEX {bare triage_message_queue} ON {triage_message} (queue_number, state, id);
CREATE INDEX {bare triage_message_state} ON {triage_message} (state, id);
CREATE INDEX {bare triage_message_partial} ON {triage_message} (id) WHERE partial = 1;

-- What lists do not show of a message.
CREATE TABLE {triage_content} (
    id         BIGINT NOT NULL PRIMARY KEY,
    properties BYTEA NOT NULL,
    headers    BYTEA NOT NULL,
    stack      BYTEA NOT NULL,
    body       BYTEA NOT NULL
);

-- The terms by which messages are found. rehop computes them.
CREATE TABLE {triage_terms} (
    id    BIGINT NOT NULL PRIMARY KEY,
    terms BIGINT[] NOT NULL
) WITH (autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX {bare triage_terms_all} ON {triage_terms} USING gin (terms) WITH (gin_pending_list_limit = 512);
-- The planner must know which terms are frequent: those are found fastest from the newest message on, and rare ones by their index.
ALTER TABLE {triage_terms} ALTER COLUMN terms SET STATISTICS 1000;

-- What operators did. hash is that of this row and of the one before.
CREATE TABLE {triage_audit} (
    number  BIGINT NOT NULL PRIMARY KEY,
    at      BIGINT NOT NULL,
    actor   BYTEA NOT NULL,
    action  BYTEA NOT NULL,
    subject BYTEA NOT NULL,
    details BYTEA NOT NULL,
    hash    BYTEA NOT NULL
);
