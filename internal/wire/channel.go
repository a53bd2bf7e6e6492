package wire

type ChannelOpen struct{}

func (*ChannelOpen) ID() MethodID       { return IDChannelOpen }
func (*ChannelOpen) arguments(c *codec) { c.reservedShortString() }

type ChannelOpenOK struct{}

func (*ChannelOpenOK) ID() MethodID       { return IDChannelOpenOK }
func (*ChannelOpenOK) arguments(c *codec) { c.reservedLongString() }

type ChannelFlow struct {
	Active bool
}

func (*ChannelFlow) ID() MethodID         { return IDChannelFlow }
func (m *ChannelFlow) arguments(c *codec) { c.bits(&m.Active) }

type ChannelFlowOK struct {
	Active bool
}

func (*ChannelFlowOK) ID() MethodID         { return IDChannelFlowOK }
func (m *ChannelFlowOK) arguments(c *codec) { c.bits(&m.Active) }

type ChannelClose struct {
	ReplyCode         uint16
	ReplyText         string
	ClassID, MethodID uint16 // of the method at fault, if any
}

func (*ChannelClose) ID() MethodID { return IDChannelClose }

func (m *ChannelClose) arguments(c *codec) {
	c.short(&m.ReplyCode)
	c.shortString(&m.ReplyText)
	c.short(&m.ClassID)
	c.short(&m.MethodID)
}

type ChannelCloseOK struct{ noArguments }

func (*ChannelCloseOK) ID() MethodID { return IDChannelCloseOK }

// AccessRequest asks for a ticket, which nothing but old clients still does. Tickets mean nothing.
type AccessRequest struct {
	Realm                                   string
	Exclusive, Passive, Active, Write, Read bool
}

func (*AccessRequest) ID() MethodID { return IDAccessRequest }

func (m *AccessRequest) arguments(c *codec) {
	c.shortString(&m.Realm)
	c.bits(&m.Exclusive, &m.Passive, &m.Active, &m.Write, &m.Read)
}

type AccessRequestOK struct {
	Ticket uint16
}

func (*AccessRequestOK) ID() MethodID         { return IDAccessRequestOK }
func (m *AccessRequestOK) arguments(c *codec) { c.short(&m.Ticket) }
