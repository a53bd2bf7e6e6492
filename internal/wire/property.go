package wire

import "fmt"

// PropertySet is a set of properties, as flags in the order of the wire.
type PropertySet uint16

// The properties of a message.
const (
	HasContentType PropertySet = 1 << (15 - iota)
	HasContentEncoding
	HasHeaders
	HasDeliveryMode
	HasPriority
	HasCorrelationID
	HasReplyTo
	HasExpiration
	HasMessageID
	HasTimestamp
	HasType
	HasUserID
	HasAppID
	HasClusterID

	// allProperties leaves out the two lowest flags. RabbitMQ ignores them, the one that announces
	// more flags too.
	allProperties PropertySet = ^PropertySet(3)
)

// Properties are the properties of a message. One is present when Has names it or its value is not
// zero; so Has matters only for those that are present and empty, and to remove one is to clear both.
type Properties struct {
	Has             PropertySet
	ContentType     string
	ContentEncoding string
	Headers         Table
	DeliveryMode    uint8
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string
	MessageID       string
	Timestamp       uint64
	Type            string
	UserID          string
	AppID           string
	ClusterID       string
}

// ParseProperties reads properties as a content header has them: flags, then values.
func ParseProperties(raw []byte) (Properties, error) {
	var p Properties
	c := codec{buf: raw, anyBytes: true}
	p.fields(&c)
	if err := c.readAll("properties"); err != nil {
		return Properties{}, err
	}
	return p, nil
}

// Append appends flags and values. It adds nothing when Check finds a fault.
func (p Properties) Append(dst []byte) []byte {
	c := codec{writing: true, buf: dst}
	p.fields(&c)
	if c.fault != nil {
		return dst
	}
	return c.buf
}

// Check returns why the properties cannot be written: a text of more than 255 bytes, or a fault in Headers.
func (p Properties) Check() error {
	c := codec{writing: true}
	p.fields(&c)
	if c.fault != nil {
		return fmt.Errorf("write properties: %s", c.fault.Text)
	}
	return nil
}

func (p *Properties) fields(c *codec) {
	if c.writing {
		p.Has |= p.set()
	}
	p.Has &= allProperties
	c.short((*uint16)(&p.Has))
	p.Has &= allProperties
	if p.Has&HasContentType != 0 {
		c.shortString(&p.ContentType)
	}
	if p.Has&HasContentEncoding != 0 {
		c.shortString(&p.ContentEncoding)
	}
	if p.Has&HasHeaders != 0 {
		c.table(&p.Headers)
	}
	if p.Has&HasDeliveryMode != 0 {
		c.octet(&p.DeliveryMode)
	}
	if p.Has&HasPriority != 0 {
		c.octet(&p.Priority)
	}
	if p.Has&HasCorrelationID != 0 {
		c.shortString(&p.CorrelationID)
	}
	if p.Has&HasReplyTo != 0 {
		c.shortString(&p.ReplyTo)
	}
	if p.Has&HasExpiration != 0 {
		c.shortString(&p.Expiration)
	}
	if p.Has&HasMessageID != 0 {
		c.shortString(&p.MessageID)
	}
	if p.Has&HasTimestamp != 0 {
		c.longLong(&p.Timestamp)
	}
	if p.Has&HasType != 0 {
		c.shortString(&p.Type)
	}
	if p.Has&HasUserID != 0 {
		c.shortString(&p.UserID)
	}
	if p.Has&HasAppID != 0 {
		c.shortString(&p.AppID)
	}
	if p.Has&HasClusterID != 0 {
		c.shortString(&p.ClusterID)
	}
}

// set names the properties that are not zero.
func (p *Properties) set() PropertySet {
	var set PropertySet
	for _, each := range []struct {
		property PropertySet
		present  bool
	}{
		{HasContentType, p.ContentType != ""},
		{HasContentEncoding, p.ContentEncoding != ""},
		{HasHeaders, len(p.Headers) > 0},
		{HasDeliveryMode, p.DeliveryMode != 0},
		{HasPriority, p.Priority != 0},
		{HasCorrelationID, p.CorrelationID != ""},
		{HasReplyTo, p.ReplyTo != ""},
		{HasExpiration, p.Expiration != ""},
		{HasMessageID, p.MessageID != ""},
		{HasTimestamp, p.Timestamp != 0},
		{HasType, p.Type != ""},
		{HasUserID, p.UserID != ""},
		{HasAppID, p.AppID != ""},
		{HasClusterID, p.ClusterID != ""},
	} {
		if each.present {
			set |= each.property
		}
	}
	return set
}
