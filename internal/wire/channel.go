package wire

type ChannelOpen struct{ _ string }
type ChannelOpenOK struct{ _ []byte }
type ChannelFlow struct{ Active bool }
type ChannelFlowOK ChannelFlow
type ChannelClose ConnectionClose
type ChannelCloseOK struct{}

// AccessRequest asks for a ticket. Only old clients send it, and tickets have no effect.
type AccessRequest struct {
	Realm                                   string
	Exclusive, Passive, Active, Write, Read bool
}

type AccessRequestOK struct{ Ticket uint16 }

func (*ChannelOpen) ID() MethodID     { return IDChannelOpen }
func (*ChannelOpenOK) ID() MethodID   { return IDChannelOpenOK }
func (*ChannelFlow) ID() MethodID     { return IDChannelFlow }
func (*ChannelFlowOK) ID() MethodID   { return IDChannelFlowOK }
func (*ChannelClose) ID() MethodID    { return IDChannelClose }
func (*ChannelCloseOK) ID() MethodID  { return IDChannelCloseOK }
func (*AccessRequest) ID() MethodID   { return IDAccessRequest }
func (*AccessRequestOK) ID() MethodID { return IDAccessRequestOK }
