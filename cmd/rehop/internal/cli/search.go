package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/triage"
)

func (c *command) failedSearch() *cobra.Command {
	var (
		x     *index
		limit int
	)
	cmd := &cobra.Command{
		Use:   "search [query…]",
		Short: "Search the index of failed messages",
		Long: `Search lists messages of the index that match a query, the newest failure first. Without a query it lists the newest. Several arguments are one query, with spaces
between them.

A query is a list of conditions, all of which a message must match:

    refused            a word, in any text of the message
    '"not found"'      words that follow each other
    error:refused      a word in the error
    queue:orders       also kind, key, exchange, host, version, id, run; a * at the end is any rest
    header.tenant:t-7  the value of a header
    body.order.id:123  a value in a body that is JSON
    state:failed       failed, kept, replayed, succeeded, discarded or gone
    group:ab12         the id of a group, or its beginning
    since:2h until:1h  a duration before now, a date, or a time

A minus sign before a condition negates it. If the query begins with one, write -- before it: rehop failed search -- -kind:timeout.

With --json it prints a line for each message, with headers, body and stack. The column REF names a message for rehop runs start --ref.`,
		Example: `  rehop failed search queue:orders since:2h -kind:timeout '"connection refused"'
  rehop failed search body.order.id:123 --json`,
		Args: needs("[query…]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			q, err := parseQuery(strings.Join(args, " "))
			if err != nil {
				return err
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				return (&search{index: x, store: store, query: q, limit: limit}).run(cmd.Context())
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many messages")
	x = c.newIndex(cmd.Flags())
	return cmd
}

// parseQuery reads a query. Its error shows the place.
func parseQuery(text string) (triage.Query, error) {
	q, err := triage.ParseQuery(text, time.Now())
	wrong, ok := errors.AsType[*triage.QueryError](err)
	if !ok {
		return q, err
	}
	before := 0
	for range wrong.Column - 1 {
		_, size := utf8.DecodeRuneInString(text[before:])
		before += size
	}
	return q, usage("%w\n    %s\n    %s^", err, plain(text), strings.Repeat(" ", utf8.RuneCountInString(plain(text[:before]))))
}

// search is a search in the index.
type search struct {
	*index
	store *triage.Store
	query triage.Query
	limit int

	shown    []triage.Message // for a table
	found    int
	first    triage.Result // the first page, which has the counts
	next     string        // where the search ended; empty: there are no more
	notified bool          // that it takes long
}

// run finds messages and prints them. Messages that were found before an interruption are printed, too.
func (s *search) run(ctx context.Context) error {
	err := s.find(ctx)
	if err != nil && (ctx.Err() == nil || s.found == 0) {
		return err
	}
	if err == nil || s.next != "" {
		err = errors.Join(err, s.print())
	}
	return err
}

// find reads pages until there are enough messages. It continues a search that has stopped because it reads very many texts: an operator
// can interrupt it.
func (s *search) find(ctx context.Context) error {
	for page := (triage.Page{Whole: s.json}); ; page.After = s.next {
		page.Limit = s.limit - s.found
		r, err := s.store.Search(ctx, s.query, page)
		if err != nil {
			return err
		}
		if page.After == "" {
			s.first = r
		}
		s.found, s.next = s.found+len(r.Messages), r.Next
		if s.json {
			for _, m := range r.Messages {
				if err := s.printLine(m); err != nil {
					return err
				}
			}
		} else {
			s.shown = append(s.shown, r.Messages...)
		}
		if r.Next == "" || s.found >= s.limit {
			return nil
		}
		if r.Unfinished && !s.notified {
			s.notified = true
			s.notice("the texts of very many messages must be read to find words that follow each other; more conditions, such as queue: or since:, make it quicker")
		}
	}
}

func (s *search) print() error {
	var err error
	switch {
	case s.json: // find has printed them
	case s.found == 0:
		err = s.printf("none\n")
	default:
		if err = s.printList(); err == nil {
			err = s.printf("\n%s\n", s.total())
		}
	}
	if s.next != "" {
		s.notice("not all messages are listed (%s); use --limit to list more", s.total())
	}
	if n := s.first.NotWhole; n > 0 {
		s.notice("%s more words and values than the index holds, so that the search may have missed some of them", notWhole(n))
	}
	return err
}

// maxNotWhole is the number up to which messages are counted that the index does not have whole.
const maxNotWhole = 1000

// notWhole is how many messages the index does not have whole, as the subject of a sentence.
func notWhole(n int) string {
	switch {
	case n >= maxNotWhole:
		return fmt.Sprintf("%d messages or more have", n)
	case n == 1:
		return "1 message has"
	}
	return fmt.Sprintf("%d messages have", n)
}

// total is how many messages match, if that is known.
func (s *search) total() string {
	shown := s.found
	switch {
	case s.next == "":
		return counted(shown, "message")
	case s.first.Count <= shown: // words that follow each other are not counted beyond what was read
		return counted(shown, "message") + ", and there may be more"
	case s.first.AtLeast:
		return fmt.Sprintf("%d of at least %d messages", shown, s.first.Count)
	}
	return fmt.Sprintf("%d of %s", shown, counted(s.first.Count, "message"))
}

// printList prints a table. On a narrow terminal a message has two lines, of which the second is cut off.
func (s *search) printList() error {
	list := table{heading: []string{"FAILED", "REF", "STATE", "QUEUE", "KIND"}}
	narrow := s.Width > 0 && s.Width < wideTable
	for _, m := range s.shown {
		row := []string{when(m.FailedAt), m.Ref, string(m.State), dash(m.Queue), dash(m.Kind)}
		if !narrow {
			row = append(row, dash(m.ID), shorten(m.Error, 80))
		}
		list.rows = append(list.rows, row)
	}
	if narrow {
		list.below = func(row int) string {
			return shorten("    "+plain(dash(s.shown[row].ID)+"  "+s.shown[row].Error), s.Width)
		}
		return s.index.print(list)
	}
	list.heading = append(list.heading, "ID", "ERROR")
	return s.index.print(list)
}
