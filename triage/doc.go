// Package triage keeps an index of failed messages in a SQL database: it groups them by cause, searches them, counts them, and
// records what operators did.
//
// The failed queues on the broker stay the truth. The index can be deleted at any time and is rebuilt by reading the queues; a
// [Sweep] makes it equal to a queue again. What only the index has are the states, assignees and notes of groups, and the audit.
//
// A [Store] works on SQLite, PostgreSQL, MySQL and MariaDB, by database/sql; you provide the driver. The tables are created by
// [github.com/rehop/rehop/dialect.Migration] with the part [github.com/rehop/rehop/dialect.Triage].
package triage
