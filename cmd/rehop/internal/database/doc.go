// Package database opens the database of an outbox by its URL.
package database
