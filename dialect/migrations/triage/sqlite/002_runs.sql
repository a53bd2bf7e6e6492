-- What operators have decided to do with a fixed set of messages. action: 0 replay, 1 discard, 2 restore, 3 keep. state: 0 running,
-- 1 paused, 2 stopped, 3 done. rate is in millionths of a message per second, stop_above in millionths. The counters are how many of its
-- messages are in each state.
CREATE TABLE {triage_run} (
    number     INTEGER NOT NULL PRIMARY KEY,
    id         BLOB NOT NULL,
    action     INTEGER NOT NULL,
    state      INTEGER NOT NULL,
    actor      BLOB NOT NULL,
    query      BLOB NOT NULL,
    target     BLOB NOT NULL,
    rate       INTEGER NOT NULL,
    canary     INTEGER NOT NULL,
    stop_above INTEGER NOT NULL,
    edit       BLOB NOT NULL,
    reason     BLOB NOT NULL,
    created    INTEGER NOT NULL,
    changed    INTEGER NOT NULL,
    planned    INTEGER NOT NULL,
    sending    INTEGER NOT NULL,
    sent       INTEGER NOT NULL,
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    gone       INTEGER NOT NULL,
    refused    INTEGER NOT NULL,
    UNIQUE (id)
);
CREATE INDEX {bare triage_run_state} ON {triage_run} (state, number);

-- The messages of a run, each with the failure that it had when the run was started. state: 0 planned, 1 sending, 2 sent, 3 succeeded,
-- 4 failed again, 5 gone, 6 refused. sent_id is the id under which it is published.
CREATE TABLE {triage_run_item} (
    run_number   INTEGER NOT NULL,
    lineage      BLOB NOT NULL,
    ordinal      INTEGER NOT NULL,
    queue_number INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    replays      INTEGER NOT NULL,
    failure      INTEGER NOT NULL,
    digest       INTEGER NOT NULL,
    sent_id      BLOB NOT NULL,
    reason       BLOB NOT NULL,
    PRIMARY KEY (run_number, lineage, ordinal)
) WITHOUT ROWID;
CREATE INDEX {bare triage_run_item_state} ON {triage_run_item} (run_number, state, queue_number, lineage, ordinal);
CREATE INDEX {bare triage_run_item_sent} ON {triage_run_item} (run_number, sent_id);

-- Messages that were taken out of their failed queue, whole: a line of an export.
CREATE TABLE {triage_kept} (
    lineage BLOB NOT NULL,
    ordinal INTEGER NOT NULL,
    line    BLOB NOT NULL,
    PRIMARY KEY (lineage, ordinal)
);

-- Which process works, and until when, unless it renews that.
CREATE TABLE {triage_lease} (
    name    BLOB NOT NULL PRIMARY KEY,
    owner   BLOB NOT NULL,
    expires INTEGER NOT NULL
);
