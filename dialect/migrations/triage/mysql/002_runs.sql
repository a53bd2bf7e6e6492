-- What operators have decided to do with a fixed set of messages. action: 0 replay, 1 discard, 2 restore, 3 keep. state: 0 running,
-- 1 paused, 2 stopped, 3 done. rate is in millionths of a message per second, stop_above in millionths. The counters are how many of its
-- messages are in each state.
CREATE TABLE IF NOT EXISTS {triage_run} (
    number     BIGINT NOT NULL PRIMARY KEY,
    id         VARBINARY(255) NOT NULL,
    action     SMALLINT NOT NULL,
    state      SMALLINT NOT NULL,
    actor      LONGBLOB NOT NULL,
    query      LONGBLOB NOT NULL,
    target     VARBINARY(255) NOT NULL,
    rate       BIGINT NOT NULL,
    canary     SMALLINT NOT NULL,
    stop_above BIGINT NOT NULL,
    edit       LONGBLOB NOT NULL,
    reason     LONGBLOB NOT NULL,
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
) ENGINE = InnoDB;
CREATE INDEX {bare triage_run_state} ON {triage_run} (state, number);

-- The messages of a run, each with the failure that it had when the run was started. state: 0 planned, 1 sending, 2 sent, 3 succeeded,
-- 4 failed again, 5 gone, 6 refused. sent_id is the id under which it is published.
CREATE TABLE IF NOT EXISTS {triage_run_item} (
    run_number   BIGINT NOT NULL,
    lineage      VARBINARY(16) NOT NULL,
    ordinal      BIGINT NOT NULL,
    queue_number BIGINT NOT NULL,
    state        SMALLINT NOT NULL,
    attempts     BIGINT NOT NULL,
    replays      BIGINT NOT NULL,
    failure      BIGINT NOT NULL,
    digest       BIGINT NOT NULL,
    sent_id      VARBINARY(255) NOT NULL,
    reason       LONGBLOB NOT NULL,
    PRIMARY KEY (run_number, lineage, ordinal)
) ENGINE = InnoDB;
CREATE INDEX {bare triage_run_item_state} ON {triage_run_item} (run_number, state, queue_number, lineage, ordinal);
CREATE INDEX {bare triage_run_item_sent} ON {triage_run_item} (run_number, sent_id);

-- Messages that were taken out of their failed queue, whole: a line of an export.
CREATE TABLE IF NOT EXISTS {triage_kept} (
    lineage VARBINARY(16) NOT NULL,
    ordinal BIGINT NOT NULL,
    line    LONGBLOB NOT NULL,
    PRIMARY KEY (lineage, ordinal)
) ENGINE = InnoDB;

-- Which process works, and until when, unless it renews that.
CREATE TABLE IF NOT EXISTS {triage_lease} (
    name    VARBINARY(255) NOT NULL PRIMARY KEY,
    owner   LONGBLOB NOT NULL,
    expires BIGINT NOT NULL
) ENGINE = InnoDB;
