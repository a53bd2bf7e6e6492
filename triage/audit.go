package triage

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Entry is something that was done, for the audit.
type Entry struct {
	Actor   string // who did it
	Action  string // what was done, such as "group.set"
	Subject string // to what, such as the ID of a group
	Details any    // more about it; it is stored as JSON
}

// Record is a row of the audit.
type Record struct {
	Number  int64 // from 1 on, without gaps
	At      time.Time
	Actor   string
	Action  string
	Subject string
	Details json.RawMessage
	Hash    string // hexadecimal, of this row and of the hash before
}

// Head is the end of the audit at some time. Whoever keeps one elsewhere can prove later that nothing before it was changed or removed.
type Head struct {
	Number int64
	Hash   string
}

// ErrAuditBroken means that the audit was changed by somebody else than rehop.
var ErrAuditBroken = errors.New("the audit was tampered with")

// Audit appends an entry to the audit. Changes that methods of the store make append theirs in the same transaction.
func (s *Store) Audit(ctx context.Context, entry Entry) (Record, error) {
	var record Record
	err := s.write(ctx, func(w *writer) (err error) {
		record, err = w.audit(ctx, entry)
		return err
	})
	if err != nil {
		return Record{}, fmt.Errorf("triage: audit %q: %w", entry.Action, err)
	}
	return record, nil
}

// addressKey is the key of a context for an address.
type addressKey struct{}

// FromAddress returns a context with the address from which somebody makes changes. Records of the audit that are written with it have the address in
// their details, as "from".
func FromAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// withAddress adds the address of a context, if it has one, to details.
func withAddress(ctx context.Context, details json.RawMessage) (json.RawMessage, error) {
	address, _ := ctx.Value(addressKey{}).(string)
	if address == "" {
		return details, nil
	}
	from, err := json.Marshal(address)
	if err != nil {
		return nil, err
	}
	switch text := string(details); {
	case text == "null" || text == "{}":
		return fmt.Appendf(nil, `{"from":%s}`, from), nil
	case text[0] == '{':
		return fmt.Appendf(nil, `%s,"from":%s}`, text[:len(text)-1], from), nil
	default:
		return fmt.Appendf(nil, `{"details":%s,"from":%s}`, text, from), nil
	}
}

// audit appends an entry. No other transaction can do so before this one ends, so the chain has no forks.
func (w *writer) audit(ctx context.Context, entry Entry) (Record, error) {
	details, err := json.Marshal(entry.Details)
	if err != nil {
		return Record{}, fmt.Errorf("details of the audit: %w", err)
	}
	if details, err = withAddress(ctx, details); err != nil {
		return Record{}, fmt.Errorf("details of the audit: %w", err)
	}
	head, err := w.store.head(ctx, w)
	if err != nil {
		return Record{}, err
	}
	r := Record{Number: head.Number + 1, At: timeOfMicros(w.now), Actor: entry.Actor, Action: entry.Action, Subject: entry.Subject, Details: details}
	hash := r.hash(head.Hash)
	r.Hash = hex.EncodeToString(hash)
	_, err = w.ExecContext(ctx, w.store.sql.Bind("INSERT INTO "+w.store.table("audit")+" (number, at, actor, action, subject, details, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"),
		r.Number, w.now, bytesOf(r.Actor), bytesOf(r.Action), bytesOf(r.Subject), []byte(r.Details), hash)
	return r, err
}

// hash is that of a record after another one.
func (r *Record) hash(before string) []byte {
	h := sha256.New()
	add(h, before, strconv.FormatInt(r.Number, 10), strconv.FormatInt(r.At.UnixMicro(), 10), r.Actor, r.Action, r.Subject, string(r.Details))
	return h.Sum(nil)
}

const auditColumns = "number, at, actor, action, subject, details, hash"

func scanRecord(rows *sql.Rows) (r Record, err error) {
	var at int64
	var actor, action, subject, details, hash []byte
	err = rows.Scan(&r.Number, &at, &actor, &action, &subject, &details, &hash)
	r.At, r.Actor, r.Action, r.Subject, r.Details, r.Hash = time.UnixMicro(at).UTC(), string(actor), string(action), string(subject), details, hex.EncodeToString(hash)
	return r, err
}

// AuditHead returns the end of the audit. It is zero if the audit is empty.
func (s *Store) AuditHead(ctx context.Context) (Head, error) {
	head, err := s.head(ctx, s.db)
	if err != nil {
		return Head{}, fmt.Errorf("triage: read the end of the audit: %w", err)
	}
	return head, nil
}

func (s *Store) head(ctx context.Context, db querier) (Head, error) {
	last, err := readAll(ctx, db, "SELECT "+auditColumns+" FROM "+s.table("audit")+" ORDER BY number DESC LIMIT 1", nil, scanRecord)
	if err != nil || len(last) == 0 {
		return Head{}, err
	}
	return Head{last[0].Number, last[0].Hash}, nil
}

// AuditRecords returns records of the audit, newest first, that are older than a number; 0 begins with the newest.
func (s *Store) AuditRecords(ctx context.Context, before int64, limit int) ([]Record, error) {
	where, args := "1 = 1", []any(nil)
	if before > 0 {
		where, args = "number < ?", []any{before}
	}
	records, err := readAll(ctx, s.db, s.sql.Bind("SELECT "+auditColumns+" FROM "+s.table("audit")+" WHERE "+where+" ORDER BY number DESC LIMIT ?"), append(args, min(max(limit, 1), maxLimit)), scanRecord)
	if err != nil {
		return nil, fmt.Errorf("triage: read the audit: %w", err)
	}
	return records, nil
}

// verifySome is how many records are read at once.
const verifySome = 1000

// VerifyAudit checks the hash of every record. It returns ErrAuditBroken, with the first record that is wrong, if one was changed, removed,
// inserted or moved. That records at the end were removed is found only with a head from before: pass the last one that you have kept, or
// the zero Head. It returns the head of the audit, to keep.
func (s *Store) VerifyAudit(ctx context.Context, kept Head) (Head, error) {
	var at Head
	for after := int64(math.MinInt64); ; after = at.Number {
		some, err := readAll(ctx, s.db, s.sql.Bind("SELECT "+auditColumns+" FROM "+s.table("audit")+" WHERE number > ? ORDER BY number LIMIT ?"), []any{after, verifySome}, scanRecord)
		if err != nil {
			return at, fmt.Errorf("triage: verify the audit: %w", err)
		}
		for _, r := range some {
			switch {
			case r.Number != at.Number+1:
				return at, fmt.Errorf("triage: %w: record %d follows record %d", ErrAuditBroken, r.Number, at.Number)
			case hex.EncodeToString(r.hash(at.Hash)) != r.Hash:
				return at, fmt.Errorf("triage: %w: record %d was changed, or the one before it", ErrAuditBroken, r.Number)
			}
			if at = (Head{r.Number, r.Hash}); at.Number == kept.Number && at.Hash != kept.Hash {
				return at, fmt.Errorf("triage: %w: record %d is not the one of the head that was kept", ErrAuditBroken, at.Number)
			}
		}
		if len(some) < verifySome {
			break
		}
	}
	if at.Number < kept.Number {
		return at, fmt.Errorf("triage: %w: it ends with record %d, and a head of record %d was kept", ErrAuditBroken, at.Number, kept.Number)
	}
	return at, nil
}
