package cli

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/triage"
)

// recordView is a record of the audit in JSON output.
type recordView struct {
	Number  int64           `json:"number"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Details json.RawMessage `json:"details,omitempty"`
	Hash    string          `json:"hash"`
}

// verifiedView is the result of a verification in JSON output.
type verifiedView struct {
	Intact  bool   `json:"intact"`
	Head    string `json:"head"` // of the last record that is right
	Problem string `json:"problem,omitempty"`
}

func (c *command) audit() *cobra.Command {
	return group("audit", "List and verify what operators did with failed messages",
		`The index of failed messages has an audit of what operators did with groups and runs: who, what and when. Each record has a hash of itself and of the record before, so
that a change can be found.`,
		c.auditList(), c.auditVerify())
}

func (c *command) auditList() *cobra.Command {
	var (
		x      *index
		limit  int
		before int64
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the records of the audit",
		Long:  `Ls lists the records of the audit, the newest first.`,
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || before < 0 {
				return usage("--limit %d must be positive, and --before %d must not be negative", limit, before)
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				records, more, err := recordsOf(cmd.Context(), store, before, limit)
				if err != nil {
					return err
				}
				return x.printRecords(records, more)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many records")
	cmd.Flags().Int64Var(&before, "before", 0, "list the records before this number (default from the newest)")
	x = c.newIndex(cmd.Flags())
	return cmd
}

// recordsOf returns up to limit records. more: there are others.
func recordsOf(ctx context.Context, store *triage.Store, before int64, limit int) (records []triage.Record, more bool, err error) {
	for len(records) < limit {
		some, err := store.AuditRecords(ctx, before, limit-len(records))
		if err != nil {
			return nil, false, err
		}
		if len(some) == 0 {
			return records, false, nil
		}
		records, before = append(records, some...), some[len(some)-1].Number
	}
	return records, before > 1, nil // numbers have no gaps
}

func (x *index) printRecords(records []triage.Record, more bool) error {
	if more {
		defer x.notice("there are more records; list them with --before %d or --limit", records[len(records)-1].Number)
	}
	if x.json {
		views := []recordView{}
		for _, r := range records {
			views = append(views, recordView(r))
		}
		return x.printJSON(views)
	}
	if len(records) == 0 {
		return x.printf("none\n")
	}
	var rows [][]string
	for _, r := range records {
		rows = append(rows, []string{strconv.FormatInt(r.Number, 10), when(r.At), r.Actor, r.Action, r.Subject, shorten(string(r.Details), 160)})
	}
	return x.printTable([]string{"NUMBER", "AT", "ACTOR", "ACTION", "SUBJECT", "DETAILS"}, rows)
}

func (c *command) auditVerify() *cobra.Command {
	var (
		x    *index
		head string
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody has changed the audit",
		Long: `Verify checks the hash of every record of the audit. It prints the head, which is the number and the hash of the last record. Keep the head in another place and pass it
the next time: without it, the removal of records at the end is not found.

The exit code is 3 if a record was changed, removed, inserted or moved.`,
		Example: `  rehop audit verify --head 17:8c3f…`,
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kept, err := parseHead(head)
			if err != nil {
				return err
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				at, err := store.VerifyAudit(cmd.Context(), kept)
				return x.printVerified(at, err)
			})
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "head that this command has printed before, as number:hash")
	x = c.newIndex(cmd.Flags())
	return cmd
}

// parseHead reads the head of an audit. An empty text is the zero Head.
func parseHead(text string) (head triage.Head, err error) {
	if text == "" {
		return head, nil
	}
	number, hash, _ := strings.Cut(text, ":")
	head.Number, err = strconv.ParseInt(number, 10, 64)
	head.Hash = strings.ToLower(hash)
	if raw, hashErr := hex.DecodeString(head.Hash); err != nil || hashErr != nil || len(raw) == 0 || head.Number < 1 {
		return head, usage("--head %q is not a head: write it as rehop audit verify prints it, as in 17:8c3f…", text)
	}
	return head, nil
}

func headText(h triage.Head) string { return fmt.Sprintf("%d:%s", h.Number, h.Hash) }

// printVerified prints the result of a verification: how far the audit is right, and what is wrong with it.
func (x *index) printVerified(at triage.Head, err error) error {
	broken := errors.Is(err, triage.ErrAuditBroken)
	if err != nil && !broken {
		return err
	}
	result := verifiedView{Intact: !broken}
	if at.Number > 0 {
		result.Head = headText(at)
	}
	if broken {
		result.Problem = err.Error()
	}
	switch {
	case x.json:
		if err := x.printJSON(result); err != nil {
			return err
		}
	case broken: // the error has it
	case at.Number == 0:
		return x.printf("the audit is empty\n")
	default:
		return x.printf("the audit is intact: %s\nhead %s\n", counted(int(at.Number), "record"), result.Head)
	}
	if broken {
		return found("%w; compare with a backup of the database", err)
	}
	return nil
}
