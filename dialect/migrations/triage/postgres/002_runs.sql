-- What operators have decided to do with a fixed set of messages. action: 0 replay, 1 discard, 2 restore, 3 keep. state: 0 running,
-- 1 paused, 2 stopped, 3 done. rate is in millionths of a message per second, stop_above in millionths. The counters are how many of its
-- messages are in each state.
CREATE TABLE {triage_run} (
    number     BIGINT NOT NULL PRIMARY KEY,
    id         BYTEA NOT NULL,
    action     SMALLINT NOT NULL,
    state      SMALLINT NOT NULL,
    actor      BYTEA NOT NULL,
    query      BYTEA NOT NULL,
    target     BYTEA NOT NULL,
    rate       BIGINT NOT NULL,
    canary     SMALLINT NOT NULL,
    stop_above BIGINT NOT NULL,
    edit       BYTEA NOT NULL,
    reason     BYTEA NOT NULL,
    created    BIGINT NOT NULL,
    changed    BIGINT NOT NULL,
    planned    BIGINT NOT NULL,
    sending    BIGINT NOT NULL,
    sent       BIGINT NOT NULL,
    succeeded  BIGINT NOT NULL,
    failed     BIGINT NOT NULL,
    gone       BIGINT NOT NULL,
    refused    BIGINT NOT NULL,
    UNIQUE (id)
);
CREATE INDEX {bare triage_run_state} ON {triage_run} (state, number);

-- The messages of a run, each with the failure that it had when the run was started. state: 0 planned, 1 sending, 2 sent, 3 succeeded,
-- 4 failed again, 5 gone, 6 refused. sent_id is the id under which it is published.
CREATE TABLE {triage_run_item} (
    run_number   BIGINT NOT NULL,
    lineage      BYTEA NOT NULL,
    ordinal      BIGINT NOT NULL,
    queue_number BIGINT NOT NULL,
    state        SMALLINT NOT NULL,
    attempts     BIGINT NOT NULL,
    replays      BIGINT NOT NULL,
    failure      BIGINT NOT NULL,
    digest       BIGINT NOT NULL,
    sent_id      BYTEA NOT NULL,
    reason       BYTEA NOT NULL,
    PRIMARY KEY (run_number, lineage, ordinal)
);
CREATE INDEX {bare triage_run_item_state} ON {triage_run_item} (run_number, state, queue_number, lineage, ordinal);
CREATE INDEX {bare triage_run_item_sent} ON {triage_run_item} (run_number, sent_id);

-- Messages that were taken out of their failed queue, whole: a line of an export.
CREATE TABLE {triage_kept} (
    lineage BYTEA NOT NULL,
    ordinal BIGINT NOT NULL,
    line    BYTEA NOT NULL,
    PRIMARY KEY (lineage, ordinal)
);

-- Which process works, and until when, unless it renews that.
CREATE TABLE {triage_lease} (
    name    BYTEA NOT NULL PRIMARY KEY,
    owner   BYTEA NOT NULL,
    expires BIGINT NOT NULL
);
