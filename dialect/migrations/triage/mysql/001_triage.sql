-- One row, which every transaction that writes to the index changes first: so they run one after the other, and counters and the audit
-- cannot disagree with what they count.
CREATE TABLE IF NOT EXISTS {triage_turn} (
    id   BIGINT NOT NULL PRIMARY KEY,
    turn BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO {triage_turn} (id, turn) VALUES (1, 0);

-- Failed queues. failed is the number of messages in state 0. generation is the number of the last sweep that has begun.
CREATE TABLE IF NOT EXISTS {triage_queue} (
    number     BIGINT NOT NULL PRIMARY KEY,
    name       VARBINARY(255) NOT NULL,
    generation BIGINT NOT NULL,
    failed     BIGINT NOT NULL,
    swept      BIGINT NOT NULL,
    UNIQUE (name)
) ENGINE = InnoDB;

-- Groups of messages with the same cause, and how many messages they have in each state. state: 0 open, 1 acknowledged, 2 resolved,
-- 3 ignored, 4 regressed. decided is when the state changed last.
CREATE TABLE IF NOT EXISTS {triage_group} (
    number      BIGINT NOT NULL PRIMARY KEY,
    fingerprint VARBINARY(16) NOT NULL,
    version     BIGINT NOT NULL,
    queue       VARBINARY(255) NOT NULL,
    kind        VARBINARY(255) NOT NULL,
    title       LONGBLOB NOT NULL,
    sample      LONGBLOB NOT NULL,
    state       SMALLINT NOT NULL,
    decided     BIGINT NOT NULL,
    assignee    LONGBLOB NOT NULL,
    note        LONGBLOB NOT NULL,
    first_seen  BIGINT NOT NULL,
    last_seen   BIGINT NOT NULL,
    hosts       LONGBLOB NOT NULL,
    versions    LONGBLOB NOT NULL,
    total       BIGINT NOT NULL,
    failed      BIGINT NOT NULL,
    kept        BIGINT NOT NULL,
    replayed    BIGINT NOT NULL,
    succeeded   BIGINT NOT NULL,
    discarded   BIGINT NOT NULL,
    gone        BIGINT NOT NULL,
    UNIQUE (fingerprint)
) ENGINE = InnoDB;
CREATE INDEX {bare triage_group_seen} ON {triage_group} (last_seen, number);

-- Failures of a group's messages per hour, by the time of the failure.
CREATE TABLE IF NOT EXISTS {triage_hour} (
    group_number BIGINT NOT NULL,
    hour         BIGINT NOT NULL,
    failures     BIGINT NOT NULL,
    PRIMARY KEY (group_number, hour)
) ENGINE = InnoDB;

-- Messages. id begins with the time of the failure, so that it is also the order of lists. state: 0 failed, 1 kept, 2 replayed,
-- 3 succeeded, 4 discarded, 5 gone. failure is the time of the failure as the message has it, and ordered the one that lists use;
-- digest is a hash of what else distinguishes failures.
-- seen is the generation of the last sweep that has found it, born that in which the failure was recorded.
CREATE TABLE IF NOT EXISTS {triage_message} (
    id           BIGINT NOT NULL PRIMARY KEY,
    lineage      VARBINARY(16) NOT NULL,
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
    message_id   VARBINARY(255) NOT NULL,
    queue        VARBINARY(255) NOT NULL,
    exchange     VARBINARY(255) NOT NULL,
    routing_key  VARBINARY(255) NOT NULL,
    kind         VARBINARY(255) NOT NULL,
    host         LONGBLOB NOT NULL,
    version      LONGBLOB NOT NULL,
    run          LONGBLOB NOT NULL,
    error        LONGBLOB NOT NULL,
    UNIQUE (lineage, ordinal)
) ENGINE = InnoDB;
CREATE INDEX {bare triage_message_queue} ON {triage_message} (queue_number, state, id);
CREATE INDEX {bare triage_message_state} ON {triage_message} (state, id);
CREATE INDEX {bare triage_message_partial} ON {triage_message} (partial, id);

-- What lists do not show of a message.
CREATE TABLE IF NOT EXISTS {triage_content} (
    id         BIGINT NOT NULL PRIMARY KEY,
    properties LONGBLOB NOT NULL,
    headers    LONGBLOB NOT NULL,
    stack      LONGBLOB NOT NULL,
    body       LONGBLOB NOT NULL
) ENGINE = InnoDB;

-- The terms by which messages are found. rehop computes them.
CREATE TABLE IF NOT EXISTS {triage_terms} (
    id    BIGINT NOT NULL PRIMARY KEY,
    terms LONGBLOB NOT NULL
) ENGINE = InnoDB;

-- The messages of each term, in the order of lists. A FULLTEXT index reads all messages of a term before it returns the first.
CREATE TABLE IF NOT EXISTS {triage_posting} (
    term BIGINT NOT NULL,
    id   BIGINT NOT NULL,
    PRIMARY KEY (term, id)
) ENGINE = InnoDB;

-- What operators did. hash is that of this row and of the one before.
CREATE TABLE IF NOT EXISTS {triage_audit} (
    number  BIGINT NOT NULL PRIMARY KEY,
    at      BIGINT NOT NULL,
    actor   LONGBLOB NOT NULL,
    action  LONGBLOB NOT NULL,
    subject LONGBLOB NOT NULL,
    details LONGBLOB NOT NULL,
    hash    VARBINARY(32) NOT NULL
) ENGINE = InnoDB;
