package serve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
)

// The headers count only if the connection is from the proxy, and give a role only to the groups of the file.
func TestProxyUsers(t *testing.T) {
	settings := config.Proxy{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32"), netip.MustParsePrefix("2001:db8::/32")}, UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups", GroupsSeparator: ",",
		Roles: config.Roles{By: map[string]console.Role{"sre": console.Admin, "support": console.Operator}}}
	pipes := settings
	pipes.GroupsSeparator = "|"
	byDefault := settings
	byDefault.Roles.Default = console.Viewer
	const proxy = "10.0.0.5:1234"
	for name, tt := range map[string]struct {
		peer    string
		headers http.Header
		change  config.Proxy
		want    console.User
		refused string // "-": the request has no user
	}{
		"user":                {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"staff, support"}}, settings, console.User{Name: "proxy:ann", Role: console.Operator}, ""},
		"address of the user": {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-For": {"6.6.6.6, 7.7.7.7", "2001:db8:1::9"}}, byDefault, console.User{Name: "proxy:ann", Role: console.Viewer, From: "2001:db8:1::9"}, ""},
		"not an address":      {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-For": {"6.6.6.6, unknown"}}, byDefault, console.User{Name: "proxy:ann", Role: console.Viewer}, ""},
		"highest role":        {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"support,sre"}}, settings, console.User{Name: "proxy:ann", Role: console.Admin}, ""},
		"IPv6":                {"[2001:db8::7]:1", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{Name: "proxy:ann", Role: console.Admin}, ""},
		"IPv4 in IPv6":        {"[::ffff:10.0.0.5]:1", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{Name: "proxy:ann", Role: console.Admin}, ""},
		"other separator":     {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"a,sre|support"}}, pipes, console.User{Name: "proxy:ann", Role: console.Operator}, ""},
		"default role":        {proxy, http.Header{"X-Forwarded-User": {"Ann Müller"}}, byDefault, console.User{Name: "proxy:Ann Müller", Role: console.Viewer}, ""},
		"somebody else":       {"10.0.0.6:1234", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "-"},
		"forwarded for":       {"10.0.0.6:1234", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}, "X-Forwarded-For": {"10.0.0.5"}, "X-Real-Ip": {"10.0.0.5"}, "Forwarded": {"for=10.0.0.5"}}, settings, console.User{}, "-"},
		"no address":          {"@", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "-"},
		"other IPv4 in IPv6":  {"[::ffff:10.0.0.6]:1", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "-"},
		"no user":             {proxy, http.Header{"X-Forwarded-Groups": {"sre"}}, byDefault, console.User{}, "the header X-Forwarded-User is missing"},
		"empty user":          {proxy, http.Header{"X-Forwarded-User": {"  "}, "X-Forwarded-Groups": {"sre"}}, byDefault, console.User{}, "the header X-Forwarded-User is missing"},
		"two users":           {proxy, http.Header{"X-Forwarded-User": {"boss", "ann"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "header X-Forwarded-User more than once"},
		"two lists of groups": {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre", "staff"}}, settings, console.User{}, "header X-Forwarded-Groups more than once"},
		"no groups":           {proxy, http.Header{"X-Forwarded-User": {"ann"}}, settings, console.User{}, "You are ann, and may not use this console"},
		"other groups":        {proxy, http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"SRE,sre;support,staff sre"}}, settings, console.User{}, "may not use this console"},
		"name backwards":      {proxy, http.Header{"X-Forwarded-User": {"ann\u202enimda"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "cannot be used"},
		"name not UTF-8":      {proxy, http.Header{"X-Forwarded-User": {"ann\xff"}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "cannot be used"},
		"long name":           {proxy, http.Header{"X-Forwarded-User": {strings.Repeat("x", 256)}, "X-Forwarded-Groups": {"sre"}}, settings, console.User{}, "cannot be used"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Header = tt.peer, tt.headers
		got, err := proxyUsers(tt.change)(r)
		refusal, is := errors.AsType[*console.Refusal](err)
		switch {
		case got != tt.want:
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		case tt.refused == "" && err != nil, tt.refused == "-" && !errors.Is(err, console.ErrNoUser):
			t.Errorf("%s: got the error %v", name, err)
		case len(tt.refused) > 1 && (!is || !strings.Contains(refusal.Text, tt.refused)):
			t.Errorf("%s: got %v, want a refusal with %q", name, err, tt.refused)
		}
	}
}
