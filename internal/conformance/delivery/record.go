package delivery

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/layout"
)

// misread is what a program that knows the layout and nothing of rehop would misread in a message that returns
// after n failures; "" is nothing.
//
// Like all of this file it reads as such programs do, rather than with the library's own code: that is
// under audit.
func (s Script) misread(queue string, failures int, d amqp.Delivery) string {
	n, tells := s.failuresOf(queue, d)
	if tells && n != failures && !(n < failures && s.recordIsForgotten()) {
		return fmt.Sprintf("by its own record it has failed %d times, and it has %d times", n, failures)
	}
	if _, named := s.Layout.(layout.Tiers); !named && d.RoutingKey != boundKey { // in tiers it is the queue's name
		return fmt.Sprintf("its routing key is %q, and others would publish it again with that", d.RoutingKey)
	}
	return ""
}

// failuresOf is how often a message that returns has failed for such a program. False: the layout has no record
// of that.
func (s Script) failuresOf(queue string, d amqp.Delivery) (n int, tells bool) {
	deaths := deathsOf(d)
	switch l := s.Layout.(type) {
	case layout.PubSub: // the newest entry, whichever it is of
		if len(deaths) > 0 {
			n = deaths[0].count
		}
		return n, true
	case layout.Sneakers:
		return countOf(deaths, func(x death) bool { return x.queue == queue }), true
	case layout.Tiers:
		return countOf(deaths, func(x death) bool { return slices.Contains(l.Tiers, tierOf(x.queue)) }), true
	case layout.Envelope:
		members, _ := object(d.Body)
		n, err := strconv.Atoi(string(members[retryCount]))
		return n, err == nil || members[retryCount] == nil
	}
	return 0, false
}

// recordIsForgotten reports whether the record has only what happened since a client last published the message. It may have too
// little then, but never more than rehop's own count: a message that has waited has failed.
func (s Script) recordIsForgotten() bool {
	_, inBody := s.Layout.(layout.Envelope)
	return s.ForgetsDeaths && !s.BrokerCounts && !inBody
}

// tierOf is how long messages wait in a queue of a tier; 0 if it is none.
func tierOf(queue string) time.Duration {
	name, _ := strings.CutPrefix(queue, "delay.")
	d, err := time.ParseDuration(name)
	if err != nil {
		return 0
	}
	return d
}

// misstated is misread for a failed message.
func (s Script) misstated(queue string, failures int, d amqp.Delivery) string {
	switch s.Layout.(type) {
	case layout.DLX:
		deaths := deathsOf(d)
		if len(deaths) == 0 || deaths[0].queue != queue || deaths[0].reason != "rejected" {
			return fmt.Sprintf("its x-death is %+v, want first that it was rejected in %s", deaths, queue)
		}
	case layout.Sneakers:
		doc, ok := errorOf(d)
		_, err := time.Parse(time.RFC3339, doc.FailedAt)
		if !ok || doc.NumAttempts != failures || doc.Error == "" || err != nil {
			return fmt.Sprintf("its document has attempts %d, error %q at %q, want %d", doc.NumAttempts, doc.Error, doc.FailedAt, failures)
		}
	case layout.Envelope:
		members, _ := object(d.Body)
		if n, err := strconv.Atoi(string(members[retryCount])); err != nil || n != failures-1 || text(members[deadReason]) != "retry_limit" {
			return fmt.Sprintf("its body has retry_count %s, dead_reason %s, want %d and retry_limit", members[retryCount], members[deadReason], failures-1)
		}
	}
	return ""
}

// content is the body and the content type that a message in a failed queue had before it came there.
func (s Script) content(d amqp.Delivery) ([]byte, string) {
	if l, ok := s.Layout.(layout.Sneakers); !ok || !l.Document {
		return d.Body, d.ContentType
	}
	doc, _ := errorOf(d)
	var properties struct {
		ContentType string `json:"content_type"`
	}
	if json.Unmarshal(decoded(doc.Properties), &properties) != nil {
		return nil, ""
	}
	return decoded(doc.Payload), properties.ContentType
}

// document is what a worker of Sneakers publishes for a message that has failed too often.
type document struct {
	Error       string `json:"error"`
	NumAttempts int    `json:"num_attempts"`
	FailedAt    string `json:"failed_at"`
	Payload     string `json:"payload"`
	Properties  string `json:"properties"`
}

// retryInfo is the header that has the record in the newer form of Sneakers. The message is as it was then.
const retryInfo = "retry_info"

func errorOf(d amqp.Delivery) (doc document, ok bool) {
	if record, ok := d.Headers[retryInfo].(string); ok {
		var brief struct {
			Error       string `json:"error"`
			NumAttempts int    `json:"num_attempts"`
			FailedAt    string `json:"failed_at"`
		}
		err := json.Unmarshal([]byte(record), &brief)
		return document{Error: brief.Error, NumAttempts: brief.NumAttempts, FailedAt: brief.FailedAt}, err == nil
	}
	return doc, json.Unmarshal(d.Body, &doc) == nil
}

// decoded is base64 in lines; nil if it is not.
func decoded(lines string) []byte {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(lines, "\n", ""))
	if err != nil {
		return nil
	}
	return b
}

// death is an entry of x-death.
type death struct {
	queue, reason, exchange, key string
	count                        int
}

// deathsOf are the entries of x-death, the newest first.
func deathsOf(d amqp.Delivery) []death {
	entries, _ := d.Headers["x-death"].([]any)
	var all []death
	for _, e := range entries {
		entry, _ := e.(amqp.Table)
		var x death
		x.queue, _ = entry["queue"].(string)
		x.reason, _ = entry["reason"].(string)
		x.exchange, _ = entry["exchange"].(string)
		if keys, ok := entry["routing-keys"].([]any); ok && len(keys) > 0 {
			x.key, _ = keys[0].(string)
		}
		count, _ := entry["count"].(int64)
		x.count = int(count)
		all = append(all, x)
	}
	return all
}

func countOf(deaths []death, fits func(death) bool) int {
	sum := 0
	for _, x := range deaths {
		if fits(x) {
			sum += x.count
		}
	}
	return sum
}
