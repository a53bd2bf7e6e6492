package wire

import "cmp"

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

var codeNames = map[uint16]string{
	ReplySuccess: "REPLY_SUCCESS", ContentTooLarge: "CONTENT_TOO_LARGE", NoRoute: "NO_ROUTE", NoConsumers: "NO_CONSUMERS",
	ConnectionForced: "CONNECTION_FORCED", InvalidPath: "INVALID_PATH", AccessRefused: "ACCESS_REFUSED", NotFound: "NOT_FOUND",
	ResourceLocked: "RESOURCE_LOCKED", PreconditionFailed: "PRECONDITION_FAILED", FrameFault: "FRAME_ERROR", SyntaxError: "SYNTAX_ERROR",
	CommandInvalid: "COMMAND_INVALID", ChannelError: "CHANNEL_ERROR", UnexpectedFrame: "UNEXPECTED_FRAME", ResourceError: "RESOURCE_ERROR",
	NotAllowed: "NOT_ALLOWED", NotImplemented: "NOT_IMPLEMENTED", InternalError: "INTERNAL_ERROR",
}

// CodeName is the name that a reply text begins with.
func CodeName(code uint16) string { return cmp.Or(codeNames[code], codeNames[InternalError]) }

// ClosesConnection reports whether a code ends the whole connection, and not only a channel.
func ClosesConnection(code uint16) bool {
	switch code {
	case ContentTooLarge, NoRoute, NoConsumers, AccessRefused, NotFound, ResourceLocked, PreconditionFailed:
		return false
	}
	return true
}

// ReplyText is the code's name and the text, cut to what a short string holds in the way RabbitMQ cuts it.
func ReplyText(code uint16, text string) string {
	const ellipsis = "..."
	text = CodeName(code) + " - " + text
	if len(text) > MaxShort {
		text = text[:MaxShort-len(ellipsis)] + ellipsis
	}
	return text
}
