package triage

import (
	"context"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// Bounds of one statement: databases limit its arguments and its size.
const (
	chunkRows  = 100
	chunkBytes = 4 << 20
	chunkKeys  = 500
)

// insert inserts rows. SQLite is fastest with one prepared statement, and the others with as few statements as possible.
func (w *writer) insert(ctx context.Context, table, columns, values string, rows [][]any) error {
	return w.insertOr(ctx, table, columns, values, "", rows)
}

// insertOr is insert with what to do about rows that are there.
func (w *writer) insertOr(ctx context.Context, table, columns, values, otherwise string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	head := "INSERT INTO " + table + " (" + columns + ") VALUES "
	if w.store.sql.Dialect == dialect.SQLite {
		prepared, err := w.PrepareContext(ctx, head+values+otherwise)
		if err != nil {
			return err
		}
		defer prepared.Close()
		for _, row := range rows {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// With a context that can end, the driver starts a goroutine for each statement.
			if _, err := prepared.ExecContext(context.WithoutCancel(ctx), row...); err != nil {
				return err
			}
		}
		return nil
	}
	for len(rows) > 0 {
		n, size := 0, 0
		var args []any
		for n < len(rows) && n < chunkRows && (n == 0 || size+sizeOf(rows[n]) <= chunkBytes) {
			size += sizeOf(rows[n])
			args = append(args, rows[n]...)
			n++
		}
		query := head + strings.Repeat(values+", ", n-1) + values + otherwise
		if _, err := w.ExecContext(ctx, w.store.sql.Bind(query), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func sizeOf(row []any) (size int) {
	for _, value := range row {
		switch v := value.(type) {
		case []byte:
			size += len(v)
		case string:
			size += len(v)
		}
	}
	return size + 8*len(row)
}

// marks are placeholders for a list of arguments.
func marks(n int) string { return strings.Repeat("?, ", n-1) + "?" }

// inChunks calls do with parts of a list that fit into one statement.
func inChunks[T any](all []T, do func(some []T) error) error {
	for len(all) > 0 {
		n := min(len(all), chunkKeys)
		if err := do(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// anyArgs are arguments of a statement.
func anyArgs[T any](some []T) []any {
	args := make([]any, len(some))
	for i, one := range some {
		args[i] = one
	}
	return args
}

// deleteRows deletes rows of a table by their ids.
func (w *writer) deleteRows(ctx context.Context, table, key string, ids []int64) error {
	return inChunks(ids, func(some []int64) error {
		_, err := w.ExecContext(ctx, w.store.sql.Bind("DELETE FROM "+w.store.table(table)+" WHERE "+key+" IN ("+marks(len(some))+")"), anyArgs(some)...)
		return err
	})
}
