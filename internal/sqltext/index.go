package sqltext

// IndexOptions are those of SQLite for the index of failed messages that rehop up has: writers wait for each other, readers do not wait, and each
// connection uses little memory.
const IndexOptions = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=cache_size(-512)"

// IndexIdle is how many idle connections it has: each has a cache of its own.
const IndexIdle = 1
