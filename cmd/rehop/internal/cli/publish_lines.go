package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/rabbit"
)

const (
	linesAtOnce = 256
	bytesAtOnce = 16 << 20
	longestLine = admin.MaxLine
	faultsShown = 10
	// interruptGrace is how long an interruption waits for the broker's confirms.
	interruptGrace = 5 * time.Second
)

type lineBatch struct {
	messages []rehop.Message
	lines    []int
	bytes    int
}

func (b *lineBatch) full() bool { return len(b.messages) == linesAtOnce || b.bytes >= bytesAtOnce }

type tally struct {
	confirmed, failed int
	first             error // of a message that was not confirmed
	broken            error // why it is pointless to continue
	settled           int   // the line up to which all outcomes are known
}

// publishLines publishes a message for each line. It stops at a line that cannot be read; those before it are published.
func (p *publishing) publishLines(ctx context.Context, in io.Reader, config rehop.Config) error {
	client, err := p.connect(ctx, config)
	if err != nil {
		return err
	}
	t := &tally{settled: p.skip}
	bar := p.progressOf("published")
	err = p.eachBatch(ctx, in, func(b *lineBatch) error {
		err := p.publishBatch(ctx, client, b, t)
		bar.show(int64(t.confirmed+t.failed), 0)
		return err
	})
	bar.end()
	if !p.json {
		err = errors.Join(err, p.printf("confirmed %d, not confirmed %d\n", t.confirmed, t.failed))
	}
	if err != nil {
		p.continueAfter(t)
	}
	if err == nil && t.failed > 0 {
		err = publishCode(fmt.Errorf("%d of %d messages were not confirmed; the first: %w", t.failed, t.confirmed+t.failed, t.first))
	}
	return errors.Join(err, p.close(client))
}

func (p *publishing) continueAfter(t *tally) {
	but, perhaps := "", ""
	if t.failed > 0 {
		but = ", except for messages that are reported as not confirmed"
	}
	if errors.Is(t.broken, rehop.ErrUnknown) {
		perhaps = fmt.Sprintf("; some of the next %d lines may be published too", linesAtOnce)
	}
	if t.settled == 0 {
		p.notice("no line is published%s; start again without --skip", perhaps)
		return
	}
	p.notice("all lines up to line %d are published%s%s; --skip %d continues after it", t.settled, but, perhaps, t.settled)
}

func (p *publishing) eachBatch(ctx context.Context, in io.Reader, publish func(*lineBatch) error) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), longestLine)
	var b lineBatch
	line := 0
	for scanner.Scan() {
		if ctx.Err() != nil {
			break // the line may be incomplete
		}
		if line++; line <= p.skip || len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		m, err := p.messageOf(scanner.Bytes())
		if err != nil {
			return errors.Join(publish(&b), usage("line %d: %w", line, err))
		}
		b.messages, b.lines, b.bytes = append(b.messages, m), append(b.lines, line), b.bytes+len(m.Body)
		if b.full() {
			if err := publish(&b); err != nil {
				return err
			}
			b = lineBatch{}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := publish(&b)
	if scanner.Err() != nil {
		err = errors.Join(err, usage("line %d: %w", line+1, scanner.Err()))
	}
	return err
}

// publishBatch publishes a batch and reports the outcomes. An interruption waits for that: messages that were sent cannot be called back.
// The error is why it is pointless to continue.
func (p *publishing) publishBatch(ctx context.Context, client *rehop.Client, b *lineBatch, t *tally) error {
	if len(b.messages) == 0 {
		return nil
	}
	longer, end := rabbit.Grace(ctx, interruptGrace)
	defer end()
	limited, cancel := context.WithTimeout(longer, p.timeout)
	defer cancel()
	outcomes := make([]error, len(b.messages))
	if err := client.PublishBatch(limited, b.messages); err != nil {
		each, ok := errors.AsType[*rehop.BatchError](err)
		if !ok {
			return err
		}
		outcomes = each.Errors
	}
	for i, err := range outcomes {
		err = explainPublish(err, b.messages[i].Exchange)
		if p.json {
			if err := p.printLine(publishedOf(b.lines[i], b.messages[i].ID, err)); err != nil {
				return err
			}
		}
		t.count(b.lines[i], err)
		if err != nil && !p.json && t.failed <= faultsShown {
			p.notice("line %d: %v", b.lines[i], err)
		}
	}
	switch {
	case errors.Is(t.broken, rehop.ErrBlocked):
		return fmt.Errorf("the broker does not accept messages at the moment: %w", t.broken)
	case t.broken != nil:
		return unreachable(fmt.Errorf("the broker is gone or does not answer: %w", t.broken))
	}
	return ctx.Err()
}

func (t *tally) count(line int, err error) {
	if err == nil {
		t.confirmed++
	} else {
		t.failed++
		if t.first == nil {
			t.first = err
		}
	}
	switch {
	case broken(err) && (t.broken == nil || errors.Is(err, rehop.ErrUnknown)):
		t.broken = err
	case t.broken == nil:
		t.settled = line
	}
}

// broken reports whether an outcome is due to the state of the broker, so that the next messages would have it too.
func broken(err error) bool {
	return errors.Is(err, rehop.ErrDisconnected) || errors.Is(err, rehop.ErrUnknown) || errors.Is(err, rehop.ErrBlocked)
}

// messageOf reads a line. The flags are its defaults.
func (p *publishing) messageOf(line []byte) (rehop.Message, error) {
	v := view{Exchange: p.message.Exchange, Key: p.message.Key}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return rehop.Message{}, err
	}
	if decoder.More() {
		return rehop.Message{}, errors.New("there is more than one value on the line")
	}
	headers, err := headerjson.Typed(v.Headers)
	if err != nil {
		return rehop.Message{}, err
	}
	m := p.message
	m.Exchange, m.Key = v.Exchange, v.Key
	m.Headers = maps.Clone(m.Headers)
	maps.Copy(m.Headers, headers)
	for _, text := range []struct {
		to   *string
		from string
	}{
		{&m.ID, v.ID}, {&m.ContentType, v.ContentType}, {&m.ContentEncoding, v.ContentEncoding}, {&m.CorrelationID, v.CorrelationID},
		{&m.ReplyTo, v.ReplyTo}, {&m.Type, v.Type}, {&m.AppID, v.AppID},
	} {
		if text.from != "" {
			*text.to = text.from
		}
	}
	if v.Priority != 0 {
		m.Priority = v.Priority
	}
	m.Transient = m.Transient || v.Transient
	if v.Timestamp != nil {
		m.Timestamp = *v.Timestamp
	}
	if err := duration("delay", v.Delay, &m.Delay); err != nil {
		return m, err
	}
	if err := duration("expiration", v.Expiration, &m.Expiration); err != nil {
		return m, err
	}
	if m.Exchange == "" && m.Key == "" {
		return m, errors.New("no destination: it has neither exchange nor key")
	}
	return m, v.body(&m)
}

// body sets the body of a message, and the content type of JSON.
func (v view) body(m *rehop.Message) error {
	switch {
	case v.Body != nil && v.Base64 != nil:
		return errors.New("it has both body and body_base64")
	case v.Base64 != nil:
		m.Body = v.Base64
	case bytes.HasPrefix(v.Body, []byte(`"`)):
		var text string
		if err := json.Unmarshal(v.Body, &text); err != nil {
			return fmt.Errorf("body: %w", err)
		}
		m.Body = []byte(text)
	case v.Body != nil:
		m.Body = v.Body
		if m.ContentType == "" {
			m.ContentType = "application/json"
		}
	}
	return nil
}

func duration(name, text string, to *time.Duration) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%s %q must be like 10s or 1h30m", name, text)
	}
	*to = d
	return nil
}
