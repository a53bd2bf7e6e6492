// Package orms tests the outbox and the inbox with the libraries that Go programs use for SQL: gorm, bun, sqlx, ent, sqlc, pgx and
// database/sql. Each runs on PostgreSQL, and on MySQL and MariaDB where it supports them. docs/orms.md shows the code for users.
package orms
