package wire

type ConnectionStart struct {
	VersionMajor, VersionMinor uint8
	ServerProperties           Table
	Mechanisms, Locales        string
}

type ConnectionStartOK struct {
	ClientProperties Table
	Mechanism        string
	Response         []byte
	Locale           string
}

type ConnectionSecure struct{ Challenge []byte }
type ConnectionSecureOK struct{ Response []byte }

type ConnectionTune struct {
	ChannelMax uint16
	FrameMax   uint32
	Heartbeat  uint16 // in seconds
}

type ConnectionTuneOK ConnectionTune

type ConnectionOpen struct {
	VirtualHost string
	_           string
	_           bool
}

type ConnectionOpenOK struct{ _ string }

type ConnectionClose struct {
	ReplyCode         uint16
	ReplyText         string
	ClassID, MethodID uint16 // of the method that caused it, if any
}

type ConnectionCloseOK struct{}
type ConnectionBlocked struct{ Reason string }
type ConnectionUnblocked struct{}

type ConnectionUpdateSecret struct {
	NewSecret []byte
	Reason    string
}

type ConnectionUpdateSecretOK struct{}

func (*ConnectionStart) ID() MethodID          { return IDConnectionStart }
func (*ConnectionStartOK) ID() MethodID        { return IDConnectionStartOK }
func (*ConnectionSecure) ID() MethodID         { return IDConnectionSecure }
func (*ConnectionSecureOK) ID() MethodID       { return IDConnectionSecureOK }
func (*ConnectionTune) ID() MethodID           { return IDConnectionTune }
func (*ConnectionTuneOK) ID() MethodID         { return IDConnectionTuneOK }
func (*ConnectionOpen) ID() MethodID           { return IDConnectionOpen }
func (*ConnectionOpenOK) ID() MethodID         { return IDConnectionOpenOK }
func (*ConnectionClose) ID() MethodID          { return IDConnectionClose }
func (*ConnectionCloseOK) ID() MethodID        { return IDConnectionCloseOK }
func (*ConnectionBlocked) ID() MethodID        { return IDConnectionBlocked }
func (*ConnectionUnblocked) ID() MethodID      { return IDConnectionUnblocked }
func (*ConnectionUpdateSecret) ID() MethodID   { return IDConnectionUpdateSecret }
func (*ConnectionUpdateSecretOK) ID() MethodID { return IDConnectionUpdateSecretOK }
