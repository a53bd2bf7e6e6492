package triage

import (
	"context"
	"database/sql"
	"fmt"
)

// MessageRun is a run that had a message in its set.
type MessageRun struct {
	Run  Run
	Item Item // what became of the message in this run
	// EditedAs is the Ref of the edited message, if the run has edited it and the index has that one, because it has failed as well.
	EditedAs string
}

// maxRunsOf is how many runs of a message are returned.
const maxRunsOf = 100

// RunsOf returns the runs that had a message in their sets, the newest first, at most 100. Runs that Clean has deleted are missing.
func (s *Store) RunsOf(ctx context.Context, ref string) ([]MessageRun, error) {
	all, err := s.runsOf(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("triage: runs of message %s: %w", shorten(ref, 60), err)
	}
	return all, nil
}

func (s *Store) runsOf(ctx context.Context, ref string) (all []MessageRun, err error) {
	l, ordinal, err := parseRef(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	// Runs are few, and the key of an item begins with its run.
	query := "SELECT r.id, i.state, i.sent_id, i.reason FROM " + s.table("run") + " r JOIN " + s.table("run_item") + " i ON i.run_number = r.number AND i.lineage = ? AND i.ordinal = ? ORDER BY r.number DESC LIMIT ?"
	found, err := readAll(ctx, s.db, s.sql.Bind(query), []any{l[:], ordinal, maxRunsOf}, func(rows *sql.Rows) (m MessageRun, err error) {
		var id, sentID, reason []byte
		var state int
		err = rows.Scan(&id, &state, &sentID, &reason)
		m.Run.ID, m.Item = string(id), Item{Ref: ref, State: ItemState(itemColumns[state]), SentID: string(sentID), Reason: string(reason)}
		return m, err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		r, err := s.run(ctx, s.db, m.Run.ID)
		if err != nil {
			return nil, err
		}
		if m.Run = r.Run; m.Run.Edited && m.Item.SentID != "" {
			edited, err := s.search(ctx, Query{conditions: []condition{{field: withID, value: m.Item.SentID}}}, Page{Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(edited.Messages) > 0 {
				m.EditedAs = edited.Messages[0].Ref
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// EditedFrom returns the Ref of the message from which one was edited, if it was and the index still has it, and otherwise an empty text.
func (s *Store) EditedFrom(ctx context.Context, m Message) (ref string, err error) {
	if m.ID == "" {
		return "", nil
	}
	query := "SELECT i.lineage, i.ordinal FROM " + s.table("run") + " r JOIN " + s.table("run_item") + " i ON i.run_number = r.number AND i.sent_id = ?" +
		" JOIN " + s.table("message") + " m ON m.lineage = i.lineage AND m.ordinal = i.ordinal WHERE LENGTH(r.edit) > 0 ORDER BY r.number DESC LIMIT 1"
	found, err := readAll(ctx, s.db, s.sql.Bind(query), []any{bytesOf(m.ID)}, func(rows *sql.Rows) (string, error) {
		var l lineage
		var key []byte
		var ordinal int
		err := rows.Scan(&key, &ordinal)
		copy(l[:], key)
		return l.ref(ordinal), err
	})
	if err != nil {
		return "", fmt.Errorf("triage: what message %s was edited from: %w", shorten(m.Ref, 60), err)
	}
	if len(found) == 0 || found[0] == m.Ref {
		return "", nil
	}
	return found[0], nil
}
