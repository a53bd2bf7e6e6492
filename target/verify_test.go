package target_test

import (
	"encoding/base64"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

func secretOf(key string) target.Secret {
	return target.Secret("whsec_" + base64.StdEncoding.EncodeToString([]byte(key)))
}

// signed is a request that a target has sent, as its receiver sees it.
func signed(t *testing.T, body string, secrets ...target.Secret) (http.Header, []byte) {
	t.Helper()
	server, requests := record(t)
	h := open(t, &target.HTTP{URL: server.URL, Secrets: secrets})
	if err := h.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{ID: "m-1", Body: []byte(body)}}); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	return r.Header, r.body
}

// A receiver accepts what was signed with a secret that it knows, and nothing that was changed on the way.
func TestVerify(t *testing.T) {
	t.Parallel()
	old, next, other := secretOf("0123456789abcdef01234567"), secretOf("another secret, which is the new one"), secretOf("a secret that nobody here knows")
	header, body := signed(t, `{"order":1}`, old, next)
	change := func(name, value string) http.Header {
		changed := header.Clone()
		changed.Set(name, value)
		return changed
	}
	signature := header.Get(target.HeaderSignature)
	first, second, _ := strings.Cut(signature, " ")
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		secrets []target.Secret
		ok      bool
	}{
		"old secret":             {header, string(body), []target.Secret{old}, true},
		"new secret":             {header, string(body), []target.Secret{next}, true},
		"one of several":         {header, string(body), []target.Secret{other, next}, true},
		"a further version":      {change(target.HeaderSignature, "v1a,abc "+signature), string(body), []target.Secret{old}, true},
		"another secret":         {header, string(body), []target.Secret{other}, false},
		"no secret":              {header, string(body), nil, false},
		"no such secret":         {header, string(body), []target.Secret{"whsec_!"}, false},
		"another body":           {header, `{"order":2}`, []target.Secret{old}, false},
		"a longer body":          {header, string(body) + " ", []target.Secret{old}, false},
		"no body":                {header, "", []target.Secret{old}, false},
		"another id":             {change(target.HeaderID, "m-2"), string(body), []target.Secret{old}, false},
		"another time":           {change(target.HeaderTimestamp, strconv.FormatInt(time.Now().Unix()-60, 10)), string(body), []target.Secret{old}, false},
		"no time":                {change(target.HeaderTimestamp, ""), string(body), []target.Secret{old}, false},
		"a time that is none":    {change(target.HeaderTimestamp, "now"), string(body), []target.Secret{old}, false},
		"no signature":           {change(target.HeaderSignature, ""), string(body), []target.Secret{old}, false},
		"only the other one":     {change(target.HeaderSignature, second), string(body), []target.Secret{old}, false},
		"a cut signature":        {change(target.HeaderSignature, first[:len(first)-4]), string(body), []target.Secret{old}, false},
		"without its version":    {change(target.HeaderSignature, strings.TrimPrefix(first, "v1,")), string(body), []target.Secret{old}, false},
		"of another version":     {change(target.HeaderSignature, "v2,"+strings.TrimPrefix(first, "v1,")), string(body), []target.Secret{old}, false},
		"an empty signature":     {change(target.HeaderSignature, "v1,"), string(body), []target.Secret{old}, false},
		"a signature of nothing": {http.Header{}, string(body), []target.Secret{old}, false},
	} {
		err := target.Verify(c.header, []byte(c.body), c.secrets...)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, target.ErrSignature) {
			t.Errorf("%s: got %v, want accepted: %t", name, err, c.ok)
		}
		if err != nil && (strings.Contains(err.Error(), string(old)) || strings.Contains(err.Error(), first)) {
			t.Errorf("%s: the error has a secret or a signature: %v", name, err)
		}
	}
	for i := range body {
		changed := append([]byte(nil), body...)
		changed[i] ^= 1
		if target.Verify(header, changed, old, next) == nil {
			t.Errorf("byte %d was changed, and the request was accepted", i)
		}
	}
}

// A request is accepted for a while only, and a clock may differ a little.
func TestVerifyTime(t *testing.T) {
	t.Parallel()
	secret := secretOf("0123456789abcdef01234567")
	header, body := signed(t, "text", secret)
	signedAt, err := strconv.ParseInt(header.Get(target.HeaderTimestamp), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // its clock begins long before the request was signed
		if target.Verify(header, body, secret) == nil {
			t.Error("a request of the far future was accepted")
		}
		time.Sleep(time.Until(time.Unix(signedAt, 0).Add(-target.MaxClockSkew)))
		for _, c := range []struct {
			wait time.Duration
			ok   bool
		}{{0, true}, {target.MaxClockSkew, true}, {target.MaxClockSkew, true}, {time.Nanosecond, false}, {24 * time.Hour, false}} {
			time.Sleep(c.wait)
			if err := target.Verify(header, body, secret); (err == nil) != c.ok {
				t.Errorf("%v after it was signed: got %v, want accepted: %t", time.Since(time.Unix(signedAt, 0)), err, c.ok)
			}
		}
	})
}

// Signatures are compared in constant time: by hmac.Equal alone. That cannot be measured on every machine, so the source is read.
func TestVerifyComparesInConstantTime(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "verify.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]int)
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok {
				calls[p.Name+"."+s.Sel.Name]++
			}
		}
		return true
	})
	for _, leaky := range []string{"bytes.Equal", "bytes.Compare", "slices.Equal", "slices.Compare", "slices.Contains", "strings.Contains", "strings.EqualFold", "reflect.DeepEqual"} {
		if calls[leaky] > 0 {
			t.Errorf("verify.go uses %s, which ends at the first difference", leaky)
		}
	}
	if calls["hmac.Equal"] != 1 {
		t.Errorf("verify.go uses hmac.Equal %d times, want once", calls["hmac.Equal"])
	}
}
