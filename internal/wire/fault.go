package wire

import (
	"bytes"
	"fmt"
	"strconv"
)

// FrameError is why something that a peer sent cannot be read, and how to close its connection.
type FrameError struct {
	Code   uint16
	Method MethodID // the method with the error, or 0
	Text   string   // without the name of the code: see ReplyText
}

func (e *FrameError) Error() string {
	text := CodeName(e.Code) + " - " + e.Text
	if e.Method != 0 {
		text = e.Method.String() + ": " + text
	}
	return text
}

// Unexpected returns the error for a well-formed frame that is not allowed at this point.
func (f Frame) Unexpected() *FrameError {
	return &FrameError{Code: UnexpectedFrame, Text: f.describe()}
}

func (f Frame) malformed(reason string) *FrameError {
	return &FrameError{Code: FrameFault, Text: f.describe() + ": " + reason}
}

// describe prints a frame as RabbitMQ does in its reply texts.
func (f Frame) describe() string {
	share, octets := "all", f.Payload
	if len(octets) > 16 {
		share, octets = "first 16", octets[:16]
	}
	return fmt.Sprintf("type %d, %s octets = %s", f.Type, share, octetString(octets))
}

// octetString prints bytes as Erlang does: as text if all of them can be printed.
func octetString(octets []byte) string {
	notText := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if len(octets) == 0 || bytes.ContainsFunc(octets, notText) {
		return octetList(octets)
	}
	return `<<"` + string(octets) + `">>`
}

// octetList prints bytes as Erlang does, but not more of them than a reply text holds.
func octetList(octets []byte) string {
	list := []byte("<<")
	for i, o := range octets[:min(len(octets), MaxShort)] {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, uint64(o), 10)
	}
	return string(append(list, ">>"...))
}
