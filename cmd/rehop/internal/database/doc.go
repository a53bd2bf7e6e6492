// Package database opens the databases whose outboxes rehop looks after, by URL.
package database
