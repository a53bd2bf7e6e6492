package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/triage"
)

// maskText is a text as it may be shown.
func (c *Console) maskText(text string) string {
	if c.options.Mask == nil {
		return text
	}
	return c.options.Mask.Text(text)
}

// maskIndexed is a message of the index as it may be shown.
func (c *Console) maskIndexed(m triage.Message) triage.Message {
	if c.options.Mask == nil {
		return m
	}
	return c.options.Mask.Apply(m)
}

// mask is a message of the broker as it may be shown.
func (c *Console) mask(m admin.Message) admin.Message {
	if c.options.Mask == nil {
		return m
	}
	shown := fromIndexed(c.options.Mask.Apply(triage.FromFailed(m.Queue, m)))
	shown.Queue, shown.Due, shown.RecordedBy = c.maskText(m.Queue), m.Due, m.RecordedBy
	return shown
}

// maskGroup is a group as it may be shown. What is hidden in its error must not be in its title, which was made of the error and may have less for a rule
// to match, nor where the error was cut.
func (x *call) maskGroup(ctx context.Context, store *triage.Store, g triage.Group) (triage.Group, error) {
	c := x.console
	if c.options.Mask == nil {
		return g, nil
	}
	whole := g.Sample
	if g.Cut {
		var err error
		if whole, err = store.Sample(ctx, g.ID); errors.Is(err, triage.ErrNotFound) {
			g.Title, g.Sample = triage.Masked, triage.Masked // nobody knows what follows
			return c.maskNames(g), nil
		} else if err != nil {
			return g, ofIndex(err)
		}
	}
	shown := c.maskText(whole)
	if g.Title = c.maskText(g.Title); shown != whole {
		g.Title, _ = cut(triage.Normalize(shown), maxTitle)
	}
	var more bool
	if g.Sample, more = cut(shown, maxSample); more {
		g.Sample += "…"
	}
	return c.maskNames(g), nil
}

// What is shown of a group, in bytes.
const (
	maxTitle  = 500
	maxSample = 4 << 10
)

// maskNames masks the other texts of a group.
func (c *Console) maskNames(g triage.Group) triage.Group {
	g.Note, g.Kind = c.maskText(g.Note), c.maskText(g.Kind)
	g.Hosts, g.Versions = c.maskTexts(g.Hosts), c.maskTexts(g.Versions)
	return g
}

// maskTexts are texts as they may be shown.
func (c *Console) maskTexts(all []string) (shown []string) {
	for _, text := range all {
		shown = append(shown, c.maskText(text))
	}
	return shown
}

// maskField is a value of a log line as it may be shown. Each text is masked by itself: an encoded one may be another than what the rules are about.
func (c *Console) maskField(value any) any {
	switch v := value.(type) {
	case string:
		return c.maskText(v)
	case error:
		return c.maskText(v.Error())
	case url.Values:
		shown := make(url.Values, len(v))
		for name, texts := range v {
			shown[name] = c.maskTexts(texts)
		}
		return shown
	}
	return value
}

// maskJSON is JSON as it may be shown. Each text in it is masked by itself, because JSON writes some characters as escapes.
func (c *Console) maskJSON(text json.RawMessage) string {
	if c.options.Mask == nil {
		return string(text)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return triage.Masked
	}
	var shown strings.Builder
	encoder := json.NewEncoder(&shown)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c.maskValue(value)); err != nil {
		return triage.Masked
	}
	return strings.TrimSuffix(shown.String(), "\n")
}

// maskValue masks the texts in a value of JSON.
func (c *Console) maskValue(value any) any {
	switch v := value.(type) {
	case string:
		return c.maskText(v)
	case []any:
		for i := range v {
			v[i] = c.maskValue(v[i])
		}
	case map[string]any:
		shown := make(map[string]any, len(v))
		for name, one := range v {
			shown[c.maskText(name)] = c.maskValue(one)
		}
		return shown
	}
	return value
}
