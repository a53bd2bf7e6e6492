package wire

type ConnectionStart struct {
	VersionMajor, VersionMinor uint8
	ServerProperties           Table
	Mechanisms, Locales        string
}

func (*ConnectionStart) ID() MethodID { return IDConnectionStart }

func (m *ConnectionStart) arguments(c *codec) {
	c.octet(&m.VersionMajor)
	c.octet(&m.VersionMinor)
	c.table(&m.ServerProperties)
	c.longString(&m.Mechanisms)
	c.longString(&m.Locales)
}

type ConnectionStartOK struct {
	ClientProperties Table
	Mechanism        string
	Response         []byte
	Locale           string
}

func (*ConnectionStartOK) ID() MethodID { return IDConnectionStartOK }

func (m *ConnectionStartOK) arguments(c *codec) {
	c.table(&m.ClientProperties)
	c.shortString(&m.Mechanism)
	c.longBytes(&m.Response)
	c.shortString(&m.Locale)
}

type ConnectionSecure struct {
	Challenge []byte
}

func (*ConnectionSecure) ID() MethodID         { return IDConnectionSecure }
func (m *ConnectionSecure) arguments(c *codec) { c.longBytes(&m.Challenge) }

type ConnectionSecureOK struct {
	Response []byte
}

func (*ConnectionSecureOK) ID() MethodID         { return IDConnectionSecureOK }
func (m *ConnectionSecureOK) arguments(c *codec) { c.longBytes(&m.Response) }

type ConnectionTune struct {
	ChannelMax uint16
	FrameMax   uint32
	Heartbeat  uint16 // in seconds
}

func (*ConnectionTune) ID() MethodID { return IDConnectionTune }

func (m *ConnectionTune) arguments(c *codec) {
	c.short(&m.ChannelMax)
	c.long(&m.FrameMax)
	c.short(&m.Heartbeat)
}

type ConnectionTuneOK ConnectionTune

func (*ConnectionTuneOK) ID() MethodID { return IDConnectionTuneOK }

func (m *ConnectionTuneOK) arguments(c *codec) { (*ConnectionTune)(m).arguments(c) }

type ConnectionOpen struct {
	VirtualHost string
}

func (*ConnectionOpen) ID() MethodID { return IDConnectionOpen }

func (m *ConnectionOpen) arguments(c *codec) {
	c.shortString(&m.VirtualHost)
	c.reservedShortString()
	c.reservedBit()
}

type ConnectionOpenOK struct{}

func (*ConnectionOpenOK) ID() MethodID       { return IDConnectionOpenOK }
func (*ConnectionOpenOK) arguments(c *codec) { c.reservedShortString() }

type ConnectionClose ChannelClose

func (*ConnectionClose) ID() MethodID { return IDConnectionClose }

func (m *ConnectionClose) arguments(c *codec) { (*ChannelClose)(m).arguments(c) }

type ConnectionCloseOK struct{ noArguments }

func (*ConnectionCloseOK) ID() MethodID { return IDConnectionCloseOK }

type ConnectionBlocked struct {
	Reason string
}

func (*ConnectionBlocked) ID() MethodID         { return IDConnectionBlocked }
func (m *ConnectionBlocked) arguments(c *codec) { c.shortString(&m.Reason) }

type ConnectionUnblocked struct{ noArguments }

func (*ConnectionUnblocked) ID() MethodID { return IDConnectionUnblocked }

type ConnectionUpdateSecret struct {
	NewSecret []byte
	Reason    string
}

func (*ConnectionUpdateSecret) ID() MethodID { return IDConnectionUpdateSecret }

func (m *ConnectionUpdateSecret) arguments(c *codec) {
	c.longBytes(&m.NewSecret)
	c.shortString(&m.Reason)
}

type ConnectionUpdateSecretOK struct{ noArguments }

func (*ConnectionUpdateSecretOK) ID() MethodID { return IDConnectionUpdateSecretOK }
