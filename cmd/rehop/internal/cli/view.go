package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/headerjson"
)

// view is a message in JSON output. publish --lines reads the output of tail.
type view struct {
	ID       string         `json:"id,omitempty"`
	Queue    string         `json:"queue,omitempty"`
	Exchange string         `json:"exchange"`
	Key      string         `json:"key"`
	Headers  map[string]any `json:"headers,omitempty"`
	// Body is text, or other JSON that is sent unchanged. Base64 is for bodies that are not text.
	Body   json.RawMessage `json:"body,omitempty"`
	Base64 []byte          `json:"body_base64,omitempty"`

	ContentType     string     `json:"content_type,omitempty"`
	ContentEncoding string     `json:"content_encoding,omitempty"`
	Transient       bool       `json:"transient,omitempty"`
	Priority        uint8      `json:"priority,omitempty"`
	Expiration      string     `json:"expiration,omitempty"`
	Timestamp       *time.Time `json:"timestamp,omitempty"`
	CorrelationID   string     `json:"correlation_id,omitempty"`
	ReplyTo         string     `json:"reply_to,omitempty"`
	Type            string     `json:"type,omitempty"`
	AppID           string     `json:"app_id,omitempty"`
	Delay           string     `json:"delay,omitempty"`

	Attempts    int        `json:"attempts,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Error       string     `json:"error,omitempty"`
	Stack       string     `json:"stack,omitempty"`
	FailedAt    *time.Time `json:"failed_at,omitempty"`
	FirstFailed *time.Time `json:"first_failed,omitempty"`
	Due         *time.Time `json:"due,omitempty"`
	Host        string     `json:"host,omitempty"`
	Version     string     `json:"version,omitempty"`
	Replays     int        `json:"replays,omitempty"`
	RecordedBy  string     `json:"recorded_by,omitempty"`
}

func viewOf(m admin.Message) (view, error) {
	v := view{
		ID: m.ID, Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Headers: headerjson.Plain(m.Headers),
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: known(m.Timestamp),
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Attempts: m.Attempts, Kind: string(m.Kind), Error: m.Error, Stack: m.Stack, FailedAt: known(m.FailedAt), FirstFailed: known(m.FirstFailed), Due: known(m.Due),
		Host: m.Host, Version: m.Version, Replays: m.Replays, RecordedBy: m.RecordedBy,
	}
	if !utf8.Valid(m.Body) {
		v.Base64 = m.Body
		return v, nil
	}
	text, err := json.Marshal(string(m.Body))
	v.Body = text
	return v, err
}

func viewsOf(messages []admin.Message) ([]view, error) {
	all := make([]view, len(messages))
	for i, m := range messages {
		v, err := viewOf(m)
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", m.ID, err)
		}
		all[i] = v
	}
	return all, nil
}

// known is a time, or nil if it is zero, or so far away that JSON has no form for it.
func known(t time.Time) *time.Time {
	if t.IsZero() || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return nil
	}
	return &t
}

// when is a time as text, or a dash.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// headersText is a text such as tenant=acme try=2.
func headersText(headers map[string]any) string {
	plainHeaders := headerjson.Plain(headers)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(plainHeaders)) {
		value, isText := plainHeaders[name].(string)
		if !isText {
			text, err := json.Marshal(plainHeaders[name])
			if err != nil {
				text = []byte(fmt.Sprint(plainHeaders[name]))
			}
			value = string(text)
		}
		all = append(all, name+"="+value)
	}
	return strings.Join(all, " ")
}

func bodyText(body []byte, limit int) string {
	if limit > 0 && len(body) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(body[cut]) {
			cut--
		}
		return fmt.Sprintf("%s… (%d bytes)", body[:cut], len(body))
	}
	return string(body)
}

// plainLines is a text of several lines without control characters.
func plainLines(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

func shorten(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns {
		return text
	}
	return string(runes[:columns-1]) + "…"
}
