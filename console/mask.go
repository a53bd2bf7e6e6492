package console

import (
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
	shown := c.options.Mask.Apply(triage.FromFailed(m.Queue, m))
	m.Headers, m.Body, m.Error, m.Stack = shown.Headers, shown.Body, shown.Error, shown.Stack
	return m
}
