// Package sqlbox is the suite of outbox and inbox: one set of cases for each database, and each way to reach it, that they work with.
package sqlbox
