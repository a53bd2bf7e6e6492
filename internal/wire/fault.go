package wire

import (
	"fmt"
	"strconv"
)

// FrameError is why the data of a peer cannot be read, and how to close its connection.
type FrameError struct {
	Code   uint16
	Method MethodID // the method at fault, 0 when there is none
	Text   string   // without the code's name: see ReplyText
}

func (e *FrameError) Error() string {
	text := CodeName(e.Code) + " - " + e.Text
	if e.Method != 0 {
		text = e.Method.String() + ": " + text
	}
	return text
}

// Unexpected is the error for a frame that is well formed but out of place.
func (f Frame) Unexpected() *FrameError {
	return &FrameError{Code: UnexpectedFrame, Text: f.describe()}
}

func (f Frame) fault(reason string) *FrameError {
	return &FrameError{Code: FrameFault, Text: f.describe() + ": " + reason}
}

// describe words a frame as RabbitMQ does in its reply text.
func (f Frame) describe() string {
	share, octets := "all", f.Payload
	if len(octets) > 16 {
		share, octets = "first 16", octets[:16]
	}
	return fmt.Sprintf("type %d, %s octets = %s", f.Type, share, octetString(octets))
}

// octetString words bytes as Erlang does when all of them can be printed.
func octetString(octets []byte) string {
	for _, o := range octets {
		if o < ' ' || o > '~' || o == '"' || o == '\\' {
			return octetList(octets)
		}
	}
	if len(octets) == 0 {
		return octetList(octets)
	}
	return `<<"` + string(octets) + `">>`
}

// octetList words bytes as Erlang does, though no more of them than a reply text holds.
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
