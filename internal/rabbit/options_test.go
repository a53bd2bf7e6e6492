package rabbit

import (
	"net/url"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]struct{ addr, vhost, user, password string }{
		"amqp://":                               {"localhost:5672", "/", "guest", "guest"},
		"amqp://h":                              {"h:5672", "/", "guest", "guest"},
		"amqps://h/":                            {"h:5671", "/", "guest", "guest"},
		"amqp://u:p@h:1234/v":                   {"h:1234", "v", "u", "p"},
		"amqp://u:p%40%2F%3A@h/%2f":             {"h:5672", "/", "u", "p@/:"},
		"amqp://u:p@[::1]:5673/a%2Fb":           {"[::1]:5673", "a/b", "u", "p"},
		"amqp://u:p@h/v?heartbeat=5&vhost=none": {"h:5672", "v", "u", "p"},
	} {
		ep, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if ep.addr != want.addr || ep.uri.Vhost != want.vhost || ep.uri.Username != want.user || ep.uri.Password != want.password {
			t.Errorf("%s: got %s, vhost %q, %q:%q; want %+v", raw, ep.addr, ep.uri.Vhost, ep.uri.Username, ep.uri.Password, want)
		}
	}
}

// A URL that is refused does not show its password, not even in part.
func TestURLSecrets(t *testing.T) {
	for _, raw := range []string{
		"amqp://user:SECRET@host/", "amqp://user:SECRET%zz@host/", "amqp://user:SECRET@host:port/", "http://user:SECRET@host/",
		"amqp://user:SECRET x@host/", "user:SECRET@host", "amqp://user:@SECRET@host/", "amqp://user:SECRET@@host",
		"amqp://user:1/SECRET@host/", "amqp://user:1?SECRET@host/", "amqp://user:1#SECRET@host/", "amqp://user:SECRET",
		"amqp:user:SECRET@host", "amqp:///user:SECRET@host", "amqp://host/?password=SECRET", "amqp://host/#SECRET", "\x7famqp://user:SECRET@host",
	} {
		if err := CheckURL(raw); err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("CheckURL(%q): got %q", raw, err)
		}
	}
}

// A password that was not encoded and begins with digits looks like a port, and what follows like a
// virtual host: both would be shown in errors about them, so such a URL is refused.
func TestUnencodedPasswordIsRefused(t *testing.T) {
	for _, raw := range []string{"amqp://user:1/SECRET@host/", "amqp://user:1?SECRET@host/", "amqp://user:1#SECRET@host/"} {
		if err := CheckURL(raw); err == nil {
			ep, _ := parseURL(raw)
			t.Errorf("CheckURL(%q): got nil, and would connect to %q, virtual host %q; want an error", raw, ep.addr, ep.uri.Vhost)
		}
	}
	for _, raw := range []string{"amqp://user:p@host/with%40sign", "amqp://user:p%40@host"} {
		if err := CheckURL(raw); err != nil {
			t.Errorf("CheckURL(%q): got %v, want nil", raw, err)
		}
	}
}

func FuzzURLNeverLeaksPassword(f *testing.F) {
	for _, p := range []string{"simple-secret", "with/slash", "1/digits", "a@b@c", "%zz", "%41", "#?&=", " space", "\x00", "ünïcode", "[::1]", "12345"} {
		f.Add(p, "/vhost")
		f.Add(p, "?heartbeat=x")
	}
	f.Fuzz(func(t *testing.T, password, rest string) {
		if len(password) < 4 || strings.Contains("amqp://user:@host.example"+rest+errURL.Error(), password) {
			return // a password that is a part of the rest
		}
		for _, raw := range []string{
			"amqp://user:" + password + "@host.example" + rest, // as people write it
			"amqp://" + (&url.URL{User: url.UserPassword("user", password), Host: "host.example"}).String()[2:] + rest,
		} {
			if err := CheckURL(raw); err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("CheckURL(%q): got %q", raw, err)
			}
		}
	})
}

func TestHide(t *testing.T) {
	for _, test := range [][3]string{
		{"login with pa$$ failed, pa$$", "pa$$", "login with *** failed, ***"}, {"text", "", "text"}, {"text", "other", "text"},
		{`Exception (501) Reason: "EOF", a`, "a", `Exception (501) Reason: "EOF", ***`}, {"aa a-a ä", "a", "aa ***-*** ä"}, {"x=.y.z", ".y.", "x=***z"},
		{"prefixlong-secret!", "long-secret", "prefix***!"}, {"guest guests", "guest", "*** guests"},
	} {
		if got := hide(test[0], test[1]); got != test[2] {
			t.Errorf("hide(%q, %q): got %q, want %q", test[0], test[1], got, test[2])
		}
	}
}
