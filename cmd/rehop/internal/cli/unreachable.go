package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/rehop/rehop/internal/rabbit"
)

// needed is the error of a command that needs a management API that is not there.
func (a apiPlace) needed() error {
	code, why := exitUsage, cmp.Or(a.why, errors.New("nothing names it"))
	if coded, ok := errors.AsType[*exitError](why); ok {
		code = coded.code
	}
	hint := "set its URL"
	if code == exitUnreachable {
		hint = "enable it, or set its URL"
		if cure := tlsCure(why, "https://", "http://"); cure != "" {
			hint = cure + "; or set another URL"
		}
	}
	return &exitError{code, fmt.Errorf("this command needs the broker's management API: %w; %s with --management or $%s, as in %s", why, hint, envManagement, exampleAPI)}
}

// failed is the error of a request that the management API has not answered.
func (a apiPlace) failed(err error) error {
	hint := cmp.Or(tlsCure(err, "https://", "http://"), "check that it is running, and its address")
	return unreachable(fmt.Errorf("%w; this is %s; %s", err, a, hint))
}

// unreachable is the error of a broker to which no connection can be made.
func (b brokerPlace) unreachable(err error) error {
	text := fmt.Errorf("connect to the broker at %s: %w", b, err)
	if hint := b.cure(err); hint != "" {
		text = fmt.Errorf("%w; %s", text, hint)
	}
	return unreachable(text)
}

// cure is what to do if there is no connection to the broker, or "" if the error has it already.
func (b brokerPlace) cure(err error) string {
	_, refused := errors.AsType[*rabbit.RefusedError](err)
	_, noAMQP := errors.AsType[*rabbit.NotAMQPError](err)
	hint := tlsCure(err, "amqps://", "amqp://")
	switch {
	case refused || noAMQP:
		return ""
	case hint != "":
		return hint
	case b.from == fromMachine:
		return fmt.Sprintf("start one with rehop up, or name one with --broker or $%s", envBroker)
	}
	return "check that it is running, and its address and login"
}

// tlsCure is what to do about an error of TLS, or "" if it is another error. The schemes are those of URLs with and without TLS.
func tlsCure(err error, with, without string) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case unknown:
		return "name the file with the certificate that has signed the broker's: --tls-ca FILE, or tls.ca in rehop.yaml"
	case host:
		return "use a host that the certificate names, or have one issued for this host"
	case invalid:
		return "renew the certificate of the broker, or correct the clock of this machine"
	case noTLS:
		return fmt.Sprintf("if this port is not for TLS, write %s instead of %s", without, with)
	}
	return ""
}
