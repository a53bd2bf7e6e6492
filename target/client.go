package target

import (
	"crypto/tls"
	"net/http"
	"time"
)

const (
	// maxRedirects is how many redirects are followed for one message.
	maxRedirects = 3
	dialTimeout  = 10 * time.Second
)

// clientFor returns the given client with a rule for redirects, or a new client with connections of its own.
func clientFor(h *HTTP) *http.Client {
	if h.Client == nil {
		if h.TLS != (TLS{}) {
			open := func(config *tls.Config) *http.Transport { return transportFor(h, config) }
			return &http.Client{CheckRedirect: followSame, Transport: &renewing{files: h.TLS, open: open}}
		}
		return &http.Client{CheckRedirect: followSame, Transport: transportFor(h, nil)}
	}
	client := *h.Client
	if client.CheckRedirect == nil {
		client.CheckRedirect = followSame
	}
	return &client
}

func transportFor(h *HTTP, config *tls.Config) *http.Transport {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer(h.RefusePrivate).DialContext,
		TLSClientConfig:        config,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    256, // enough for one per worker
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	if h.RefusePrivate {
		t.Proxy = nil // it would connect to addresses that are not known here
	}
	return t
}

// followSame follows a redirect that keeps the method, the body and the host.
func followSame(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || next.Method != first.Method || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
