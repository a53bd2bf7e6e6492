package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// certificates are the files with the certificates of a listener. They are read again when they have changed.
type certificates struct {
	files     config.ListenTLS
	protocols []string // for ALPN
	logger    *slog.Logger
	now       atomic.Pointer[loaded]
}

// loaded is what was read from the files.
type loaded struct {
	config *tls.Config
	seen   []os.FileInfo // of the files at that time
}

// listenerTLS returns the TLS settings of a listener, or nil if it uses none. protocols are for ALPN.
func (r *running) listenerTLS(listener string, protocols ...string) (*tls.Config, error) {
	files := r.file.Listen.TLS
	if !files.Used(listener) {
		return nil, nil
	}
	c := &certificates{files: files, protocols: protocols, logger: r.Logger}
	first, err := c.load(c.stat())
	if err != nil {
		return nil, fmt.Errorf("listen.tls in the file: %w", err)
	}
	c.now.Store(first)
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: c.forClient}, nil
}

// forClient returns the current settings. If the files have changed and cannot be used, the previous certificate stays: a
// renewal may have replaced only one of them so far.
func (c *certificates) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	now := c.now.Load()
	seen := c.stat()
	if slices.EqualFunc(now.seen, seen, same) {
		return now.config, nil
	}
	next, err := c.load(seen)
	if err != nil {
		next = &loaded{now.config, seen} // tried, until they change again
	}
	if !c.now.CompareAndSwap(now, next) {
		return c.now.Load().config, nil // another client was first
	}
	if err != nil {
		c.logger.Error("the renewed certificate cannot be used; the previous one stays", "err", err)
	} else {
		c.logger.Info("the certificate was renewed", "file", c.files.Cert, "expires", next.config.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return next.config, nil
}

// stat returns what the files look like now. Nil entries are files that do not exist.
func (c *certificates) stat() (seen []os.FileInfo) {
	for _, name := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		info, err := os.Stat(name)
		if err != nil {
			info = nil
		}
		seen = append(seen, info)
	}
	return seen
}

// same reports whether a file is the same as before and has not been written.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (c *certificates) load(seen []os.FileInfo) (*loaded, error) {
	pair, err := config.LoadPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: c.protocols}
	if c.files.ClientCA == "" {
		return &loaded{settings, seen}, nil
	}
	if settings.ClientCAs, err = config.LoadSigners(c.files.ClientCA); err != nil {
		return nil, fmt.Errorf("client-ca: %w", err)
	}
	settings.ClientAuth = tls.VerifyClientCertIfGiven
	if c.files.RequireClientCert {
		settings.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return &loaded{settings, seen}, nil
}
