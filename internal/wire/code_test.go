package wire

import (
	"strings"
	"testing"
)

func TestCodes(t *testing.T) {
	for _, test := range []struct {
		code             uint16
		name             string
		closesConnection bool
	}{
		{311, "CONTENT_TOO_LARGE", false},
		{312, "NO_ROUTE", false},
		{313, "NO_CONSUMERS", false},
		{403, "ACCESS_REFUSED", false},
		{404, "NOT_FOUND", false},
		{405, "RESOURCE_LOCKED", false},
		{406, "PRECONDITION_FAILED", false},
		{320, "CONNECTION_FORCED", true},
		{402, "INVALID_PATH", true},
		{501, "FRAME_ERROR", true},
		{502, "SYNTAX_ERROR", true},
		{503, "COMMAND_INVALID", true},
		{504, "CHANNEL_ERROR", true},
		{505, "UNEXPECTED_FRAME", true},
		{506, "RESOURCE_ERROR", true},
		{530, "NOT_ALLOWED", true},
		{540, "NOT_IMPLEMENTED", true},
		{541, "INTERNAL_ERROR", true},
		{999, "INTERNAL_ERROR", true},
	} {
		if got := CodeName(test.code); got != test.name {
			t.Errorf("name of %d: got %s, want %s", test.code, got, test.name)
		}
		if got := ClosesConnection(test.code); got != test.closesConnection {
			t.Errorf("%d closes the connection: got %v, want %v", test.code, got, test.closesConnection)
		}
	}
}

func TestReplyText(t *testing.T) {
	for _, test := range []struct {
		text, want string
	}{
		{"no queue 'q'", "NOT_FOUND - no queue 'q'"},
		{strings.Repeat("x", 243), "NOT_FOUND - " + strings.Repeat("x", 243)},
		{strings.Repeat("x", 244), "NOT_FOUND - " + strings.Repeat("x", 240) + "..."},
	} {
		if got := ReplyText(NotFound, test.text); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestReplyTextByCharacters(t *testing.T) {
	const begin = "NOT_FOUND - "
	for _, test := range []struct {
		text, want string
		fits       bool
	}{
		{"no queue 'q'", begin + "no queue 'q'", true},
		{"", "NOT_FOUND", true},
		{strings.Repeat("x", 244), begin + strings.Repeat("x", 240) + "...", true},
		{strings.Repeat("x", 241) + "é", begin + strings.Repeat("x", 241) + "é", true},
		{strings.Repeat("x", 242) + "é", begin + strings.Repeat("x", 242) + "é", false},
		{strings.Repeat("x", 243) + "é", begin + strings.Repeat("x", 240) + "...", true},
		{"é" + strings.Repeat("x", 243), begin + "é" + strings.Repeat("x", 239) + "...", false},
	} {
		if got, fits := ReplyTextByCharacters(NotFound, test.text); got != test.want || fits != test.fits {
			t.Errorf("got %q, %v, want %q, %v", got, fits, test.want, test.fits)
		}
	}
}

func TestFrameErrorText(t *testing.T) {
	for _, test := range []struct {
		err  *FrameError
		want string
	}{
		{&FrameError{Code: FrameFault, Text: "why"}, "FRAME_ERROR - why"},
		{&FrameError{SyntaxError, IDQueueDeclare, "why"}, "queue.declare: SYNTAX_ERROR - why"},
		{&FrameError{NotImplemented, 60<<16 | 99, "why"}, "method 99 of class 60: NOT_IMPLEMENTED - why"},
		{Frame{FrameBody, 1, []byte("say \"hello\"")}.Unexpected(), "UNEXPECTED_FRAME - type 3, all octets = <<115,97,121,32,34,104,101,108,108,111,34>>"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}
