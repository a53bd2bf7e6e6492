package target

import (
	"net"
	"net/http"
	"time"
)

// maxRedirects is how many redirects are followed for one message.
const maxRedirects = 3

// clientFor returns the given client with a rule for redirects, or a new client with connections of its own.
func clientFor(given *http.Client) *http.Client {
	if given == nil {
		return &http.Client{CheckRedirect: followSame, Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    256, // enough for one per worker
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		}}
	}
	client := *given
	if client.CheckRedirect == nil {
		client.CheckRedirect = followSame
	}
	return &client
}

// followSame follows a redirect that keeps the method, the body and the host.
func followSame(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || next.Method != first.Method || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
