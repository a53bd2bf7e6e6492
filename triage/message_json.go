package triage

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/headerjson"
)

// messageJSON is a message in JSON. The properties of the message have the names that rehop publish --lines reads.
type messageJSON struct {
	Ref         string     `json:"ref"`
	State       State      `json:"state"`
	Group       string     `json:"group"`
	Run         string     `json:"run,omitempty"`
	Changed     *time.Time `json:"changed,omitempty"`
	FailedQueue string     `json:"failed_queue"`
	Version     string     `json:"version,omitempty"`
	Size        int        `json:"size"`
	Partial     bool       `json:"partial,omitempty"`

	ID       string         `json:"id,omitempty"`
	Queue    string         `json:"queue,omitempty"`
	Exchange string         `json:"exchange"`
	Key      string         `json:"key"`
	Headers  map[string]any `json:"headers,omitempty"`
	Body     *string        `json:"body,omitempty"`
	Base64   []byte         `json:"body_base64,omitempty"` // a body that is not UTF-8

	ContentType     string     `json:"content_type,omitempty"`
	ContentEncoding string     `json:"content_encoding,omitempty"`
	Priority        uint8      `json:"priority,omitempty"`
	Timestamp       *time.Time `json:"timestamp,omitempty"`
	CorrelationID   string     `json:"correlation_id,omitempty"`
	ReplyTo         string     `json:"reply_to,omitempty"`
	Type            string     `json:"type,omitempty"`
	AppID           string     `json:"app_id,omitempty"`

	Attempts    int        `json:"attempts,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Error       string     `json:"error,omitempty"`
	Stack       string     `json:"stack,omitempty"`
	FailedAt    *time.Time `json:"failed_at,omitempty"`
	FirstFailed *time.Time `json:"first_failed,omitempty"`
	Host        string     `json:"host,omitempty"`
	Replays     int        `json:"replays,omitempty"`
}

// MarshalJSON writes a message as rehop failed search --json prints it, and the console exports it: for people and other tools. Types of headers that JSON
// does not have become text.
func (m Message) MarshalJSON() ([]byte, error) {
	v := messageJSON{
		Ref: m.Ref, State: m.State, Group: m.Group, Run: m.Run, Changed: timeJSON(m.Changed), FailedQueue: m.FailedQueue, Version: m.Version, Size: m.Size, Partial: m.Partial,
		ID: m.ID, Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Headers: headerjson.Plain(m.Headers),
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: timeJSON(m.Timestamp),
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Attempts: m.Attempts, Kind: m.Kind, Error: m.Error, Stack: m.Stack, FailedAt: timeJSON(m.FailedAt), FirstFailed: timeJSON(m.FirstFailed),
		Host: m.Host, Replays: m.Replays,
	}
	switch {
	case m.Body == nil:
	case utf8.Valid(m.Body):
		text := string(m.Body)
		v.Body = &text
	default:
		v.Base64 = m.Body
	}
	return json.Marshal(v)
}

// timeJSON is a time, or nil if it is zero, or so far away that JSON has no form for it.
func timeJSON(t time.Time) *time.Time {
	if t.IsZero() || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return nil
	}
	return &t
}
