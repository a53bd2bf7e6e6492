package wire

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

	// allProperties leaves out the two lowest flags. RabbitMQ ignores both, although the lowest
	// announces more flags.
	allProperties PropertySet = ^PropertySet(3)
)

// Properties are the properties of a message. A property is present if it is in Has or its value is
// not zero. So Has is needed only for properties that are present and empty. To remove a property,
// clear both.
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
	p.code(&c)
	if err := c.endOf("properties"); err != nil {
		return Properties{}, err
	}
	return p, nil
}

// Append appends flags and values. It adds nothing when Check returns an error.
func (p Properties) Append(dst []byte) []byte {
	c := codec{writing: true, buf: dst}
	p.code(&c)
	if c.err != nil {
		return dst
	}
	return c.buf
}

// Check returns why the properties cannot be written: a string has more than 255 bytes, or
// Headers.Check returns an error.
func (p Properties) Check() error {
	c := codec{writing: true}
	p.code(&c)
	return c.writeError("properties")
}

// fields returns pointers to all properties, in the order of their flags.
func (p *Properties) fields() [14]any {
	return [...]any{
		&p.ContentType, &p.ContentEncoding, &p.Headers, &p.DeliveryMode, &p.Priority, &p.CorrelationID, &p.ReplyTo,
		&p.Expiration, &p.MessageID, &p.Timestamp, &p.Type, &p.UserID, &p.AppID, &p.ClusterID,
	}
}

// code reads or writes flags and values.
func (p *Properties) code(c *codec) {
	fields := p.fields()
	if c.writing {
		for i, field := range &fields {
			if !isEmpty(field) {
				p.Has |= HasContentType >> i
			}
		}
	}
	p.Has &= allProperties
	c.value((*uint16)(&p.Has))
	p.Has &= allProperties
	for i, field := range &fields {
		if p.Has&(HasContentType>>i) != 0 {
			c.value(field)
		}
	}
}

func isEmpty(property any) bool {
	switch v := property.(type) {
	case *string:
		return *v == ""
	case *Table:
		return len(*v) == 0
	case *uint64:
		return *v == 0
	}
	return *property.(*uint8) == 0
}
