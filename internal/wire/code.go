package wire

import "unicode/utf8"

// Reply codes of connection.close, channel.close and basic.return.
const (
	ReplySuccess       = 200
	ContentTooLarge    = 311
	NoRoute            = 312
	NoConsumers        = 313
	ConnectionForced   = 320
	InvalidPath        = 402
	AccessRefused      = 403
	NotFound           = 404
	ResourceLocked     = 405
	PreconditionFailed = 406
	FrameFault         = 501 // FRAME_ERROR
	SyntaxError        = 502
	CommandInvalid     = 503
	ChannelError       = 504
	UnexpectedFrame    = 505
	ResourceError      = 506
	NotAllowed         = 530
	NotImplemented     = 540
	InternalError      = 541
)

// codeNames is never changed.
var codeNames = map[uint16]string{
	ReplySuccess:       "REPLY_SUCCESS",
	ContentTooLarge:    "CONTENT_TOO_LARGE",
	NoRoute:            "NO_ROUTE",
	NoConsumers:        "NO_CONSUMERS",
	ConnectionForced:   "CONNECTION_FORCED",
	InvalidPath:        "INVALID_PATH",
	AccessRefused:      "ACCESS_REFUSED",
	NotFound:           "NOT_FOUND",
	ResourceLocked:     "RESOURCE_LOCKED",
	PreconditionFailed: "PRECONDITION_FAILED",
	FrameFault:         "FRAME_ERROR",
	SyntaxError:        "SYNTAX_ERROR",
	CommandInvalid:     "COMMAND_INVALID",
	ChannelError:       "CHANNEL_ERROR",
	UnexpectedFrame:    "UNEXPECTED_FRAME",
	ResourceError:      "RESOURCE_ERROR",
	NotAllowed:         "NOT_ALLOWED",
	NotImplemented:     "NOT_IMPLEMENTED",
}

// CodeName returns the name with which a reply text begins.
func CodeName(code uint16) string {
	if name, ok := codeNames[code]; ok {
		return name
	}
	return "INTERNAL_ERROR"
}

// ClosesConnection reports whether a code closes the connection, and not only the channel.
func ClosesConnection(code uint16) bool {
	switch code {
	case ContentTooLarge, NoRoute, NoConsumers, AccessRefused, NotFound, ResourceLocked, PreconditionFailed:
		return false
	}
	return true
}

const ellipsis = "..."

// ReplyText returns the name of the code and the text. It truncates them to the size of a short string,
// as RabbitMQ does before 4.0.
func ReplyText(code uint16, text string) string {
	text = fullText(code, text)
	if len(text) > MaxShort {
		text = text[:MaxShort-len(ellipsis)] + ellipsis
	}
	return text
}

// ReplyTextByCharacters is ReplyText as RabbitMQ makes it from 4.0 on: it truncates to a number of
// characters, so that the result may be longer than a short string, and cannot be sent then.
func ReplyTextByCharacters(code uint16, text string) (reply string, fits bool) {
	reply = fullText(code, text)
	if utf8.RuneCountInString(reply) > MaxShort {
		reply = string([]rune(reply)[:MaxShort-len(ellipsis)]) + ellipsis
	}
	return reply, len(reply) <= MaxShort
}

func fullText(code uint16, text string) string {
	if text == "" {
		return CodeName(code)
	}
	return CodeName(code) + " - " + text
}
