package letters

import (
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
)

// readSneakers reads the record of Sneakers and Kicks: a header, or in old versions a document with the
// message in it.
func readSneakers(l Letter) (Letter, Record, bool) {
	m, f, ok := layouts.OpenSneakers(layouts.Message{ID: l.ID, Headers: l.Headers, Body: l.Body, ContentType: l.ContentType,
		CorrelationID: l.CorrelationID, ReplyTo: l.ReplyTo, Type: l.Type, AppID: l.AppID, Priority: l.Priority})
	if !ok {
		return l, Record{}, false
	}
	l.ID, l.Headers, l.Body, l.ContentType, l.Priority = m.ID, m.Headers, m.Body, m.ContentType, m.Priority
	l.CorrelationID, l.ReplyTo, l.Type, l.AppID = m.CorrelationID, m.ReplyTo, m.Type, m.AppID
	r := Record{By: "Sneakers", Attempts: f.Attempt, Kind: f.Kind, Error: f.Error, Stack: f.Stack, FailedAt: f.FailedAt}
	// The record has x-death of the message if it was retried. Otherwise the name of the error queue shows the queue.
	if _, died, ok := readDeaths(l); ok && died.Attempts > 0 {
		r.Queue, r.Exchange, r.Key = died.Queue, died.Exchange, died.Key
	} else {
		r.Queue = cutAny(l.Source, "-error")
	}
	if r.Kind == "" {
		r.Kind = envelope.KindError
	}
	return l, r, true
}
