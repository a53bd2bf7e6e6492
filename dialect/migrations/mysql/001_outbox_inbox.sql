-- Messages that are to be published. state: 0 ready, 1 ready and in an order, 2 delayed until due, 3 set aside with its
-- error, 4 published and kept until due. due is 0 in states 0 and 3, and in 1 unless it is to be tried again then. Names are binary: collations take different names for one.
CREATE TABLE IF NOT EXISTS {outbox} (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    state       SMALLINT NOT NULL,
    shard       SMALLINT NOT NULL,
    due         BIGINT NOT NULL,
    created     BIGINT NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    size        BIGINT NOT NULL,
    message_id  VARBINARY(255) NOT NULL,
    exchange    VARBINARY(255) NOT NULL,
    routing_key VARBINARY(255) NOT NULL,
    order_key   VARBINARY(255) NOT NULL,
    properties  LONGBLOB NOT NULL,
    headers     LONGBLOB NOT NULL,
    error       VARBINARY(2000) NOT NULL DEFAULT '',
    body        LONGBLOB NOT NULL,
    INDEX {bare outbox_work} (state, shard, due, id),
    INDEX {bare outbox_delayed} (message_id)
) ENGINE = InnoDB;

-- Transactions that put messages into the same order wait for each other by locking one of these.
CREATE TABLE IF NOT EXISTS {outbox_order} (bucket INTEGER NOT NULL PRIMARY KEY) ENGINE = InnoDB;
INSERT IGNORE INTO {outbox_order} (bucket)
    SELECT a.n + 4 * b.n + 16 * c.n + 64 * d.n + 256 * e.n
    FROM (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS a,
         (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS b,
         (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS c,
         (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS d,
         (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS e;

-- Who may publish the messages of a shard.
CREATE TABLE IF NOT EXISTS {outbox_lease} (
    shard   SMALLINT NOT NULL PRIMARY KEY,
    owner   VARBINARY(64) NOT NULL,
    term    BIGINT NOT NULL,
    expires BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO {outbox_lease} (shard, owner, term, expires) VALUES
    (0, '', 0, 0), (1, '', 0, 0), (2, '', 0, 0), (3, '', 0, 0), (4, '', 0, 0), (5, '', 0, 0), (6, '', 0, 0), (7, '', 0, 0),
    (8, '', 0, 0), (9, '', 0, 0), (10, '', 0, 0), (11, '', 0, 0), (12, '', 0, 0), (13, '', 0, 0), (14, '', 0, 0), (15, '', 0, 0);

-- The relays that live, and whether they want to be notified of new messages.
CREATE TABLE IF NOT EXISTS {outbox_relay} (
    owner     VARBINARY(64) NOT NULL PRIMARY KEY,
    expires   BIGINT NOT NULL,
    listening SMALLINT NOT NULL
) ENGINE = InnoDB;

-- Messages whose effects are in this database.
CREATE TABLE IF NOT EXISTS {inbox} (
    id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    handled    BIGINT NOT NULL,
    consumer   VARBINARY(255) NOT NULL,
    message_id VARBINARY(255) NOT NULL,
    UNIQUE INDEX {bare inbox_message} (consumer, message_id)
) ENGINE = InnoDB;
