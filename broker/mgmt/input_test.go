package mgmt

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func newRecorder(method, path string) (*httptest.ResponseRecorder, *http.Request) {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "localhost"
	r.SetBasicAuth("guest", "guest")
	return httptest.NewRecorder(), r
}

func TestBadRequests(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":true}`)
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		reason                   string // "": any
	}{
		{"no such route", "GET", "/api/nothing", "", 404, "Not Found"},
		{"no such vhost", "GET", "/api/queues/none", "", 404, "Not Found"},
		{"no such queue", "GET", "/api/queues/%2F/none", "", 404, "Not Found"},
		{"outside the API", "GET", "/index.html", "", 404, "Not Found"},
		{"unescaped NUL", "GET", "/api/queues/%2F/%00", "", 404, "Not Found"},
		{"dots are a name", "DELETE", "/api/queues/%2F/..", "", 404, "Not Found"},
		{"method", "POST", "/api/queues/%2F/q", "{}", 405, ""},
		{"trace", "TRACE", "/api/whoami", "", 405, ""},
		{"patch", "PATCH", "/api/whoami", "", 405, ""},
		{"array", "PUT", "/api/queues/%2F/a", "[]", 400, "not_json"},
		{"null", "PUT", "/api/queues/%2F/a", "null", 400, "not_json"},
		{"half an object", "PUT", "/api/queues/%2F/a", `{"durable":tr`, 400, "not_json"},
		{"two objects", "PUT", "/api/queues/%2F/a", `{}{}`, 400, "not_json"},
		{"not UTF-8", "PUT", "/api/queues/%2F/a", "{\"a\":\"\xff\"}", 400, "not_json"},
		{"too large", "PUT", "/api/queues/%2F/a", `{"a":"` + strings.Repeat("a", maxBody) + `"}`, 400, "http_body_limit_exceeded"},
		{"deep arguments", "PUT", "/api/queues/%2F/a", `{"arguments":` + deep + `}`, 400, ""},
		{"deeper than JSON may be", "PUT", "/api/queues/%2F/a", strings.Repeat(`{"a":`, 100_000), 400, "not_json"},
		{"null argument", "PUT", "/api/queues/%2F/a", `{"arguments":{"x-message-ttl":null}}`, 400, "null_not_allowed"},
		{"huge integer", "PUT", "/api/queues/%2F/a", `{"arguments":{"x":123456789012345678901234567890}}`, 400, "number_too_large"},
		{"huge float", "PUT", "/api/queues/%2F/a", `{"arguments":{"x":1e999}}`, 400, "number_too_large"},
		{"flag", "PUT", "/api/queues/%2F/a", `{"durable":"yes"}`, 400, ""},
		{"long name", "PUT", "/api/queues/%2F/" + strings.Repeat("n", 256), `{}`, 400, ""},
		{"reserved name", "PUT", "/api/queues/%2F/amq.x", `{}`, 401, "Access refused."},
		{"different", "PUT", "/api/queues/%2F/q", `{"durable":false}`, 400, "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"},
		{"queue type", "PUT", "/api/queues/%2F/a", `{"arguments":{"x-queue-type":"odd"}}`, 400, ""},
		{"exchange type", "PUT", "/api/exchanges/%2F/a", `{"type":"odd"}`, 400, "unknown exchange type 'odd'"},
		{"page 0", "GET", "/api/queues?page=0", "", 400, "Invalid pagination parameters: page number 0, page size undefined"},
		{"page -1", "GET", "/api/queues?page=-1", "", 400, ""},
		{"page far away", "GET", "/api/queues?page=1000000000", "", 400, "Page out of range, page: 1000000000 page size: 100, len: 1"},
		{"page overflow", "GET", "/api/queues?page=9223372036854775807", "", 400, ""},
		{"page is text", "GET", "/api/queues?page=x", "", 400, "Pagination parameters are invalid"},
		{"page size", "GET", "/api/queues?page=1&page_size=501", "", 400, "Invalid pagination parameters: page number 1, page size 501"},
		{"bad pattern", "GET", "/api/queues?page=1&use_regex=true&name=(", "", 400, "Pagination parameters are invalid"},
		{"long pattern", "GET", "/api/queues?page=1&use_regex=true&name=" + strings.Repeat("a", 257), "", 400, "Pagination parameters are invalid"},
		{"columns", "GET", "/api/queues?columns=" + strings.Repeat("a,", 100), "", 400, ""},
		{"keys", "POST", "/api/queues/%2F/q/get", `{"count":1}`, 400, "[{key_missing,ackmode},{key_missing,encoding}]"},
		{"ackmode", "POST", "/api/queues/%2F/q/get", `{"count":1,"ackmode":"x","encoding":"auto"}`, 400, ""},
		{"encoding", "POST", "/api/queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"x"}`, 400, ""},
		{"truncate", "POST", "/api/queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto","truncate":-1}`, 400, ""},
		{"get from nowhere", "POST", "/api/queues/%2F/none/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{"publish nowhere", "POST", "/api/exchanges/%2F/none/publish", `{"routing_key":"","properties":{},"payload":"","payload_encoding":"string"}`, 400, "404 NOT_FOUND - no exchange 'none' in vhost '/'"},
		{"payload", "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"","properties":{},"payload":1,"payload_encoding":"string"}`, 400, "payload_not_string"},
		{"base64", "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"","properties":{},"payload":"?","payload_encoding":"base64"}`, 400, ""},
		{"priority", "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"","properties":{"priority":256},"payload":"","payload_encoding":"string"}`, 400, ""},
		{"another's name", "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"q","properties":{"user_id":"bob"},"payload":"","payload_encoding":"string"}`, 400,
			"406 PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'"},
		{"long routing key", "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"` + strings.Repeat("k", 256) + `","properties":{},"payload":"","payload_encoding":"string"}`, 400, ""},
		{"tags", "PUT", "/api/users/u", `{"password":"x"}`, 400, "tags_not_present"},
		{"hash", "PUT", "/api/users/u", `{"password_hash":"abc","tags":""}`, 400, ""},
		{"algorithm", "PUT", "/api/users/u", `{"password_hash":"","hashing_algorithm":"rabbit_password_hashing_md5","tags":""}`, 400, ""},
		{"permission pattern", "PUT", "/api/permissions/%2F/guest", `{"configure":"(","write":"","read":""}`, 400, ""},
		{"permission of nobody", "PUT", "/api/permissions/%2F/nobody", `{"configure":"","write":"","read":""}`, 400, "vhost_or_user_not_found"},
		{"policy pattern", "PUT", "/api/policies/%2F/p", `{"pattern":"(","definition":{"max-length":1}}`, 400, ""},
		{"policy key", "PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"<b>":1}}`, 400, "Validation failed\n\n[{&lt;&lt;\"&lt;b&gt;\"&gt;&gt;,1}] are not recognised policy settings\n"},
		{"policy priority", "PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"max-length":1},"priority":"3"}`, 400, ""},
		{"topic permissions", "POST", "/api/definitions", `{"topic_permissions":[{"user":"guest"}]}`, 400, ""},
		{"definitions of nowhere", "POST", "/api/definitions", `{"queues":[{"name":"a","vhost":"none"}]}`, 400, `queues 1 "a": no virtual host "none"`},
		{"definitions", "POST", "/api/definitions", `{"queues":{}}`, 400, ""},
		{"tracing", "PUT", "/api/vhosts/v", `{"tracing":true}`, 400, ""},
		{"certificates", "GET", "/api/health/checks/certificate-expiration/x/weeks", "", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := d.do(c.method, c.path, c.body)
			if got.status != c.status {
				t.Errorf("got %d %s, want %d", got.status, got.body, c.status)
			}
			if c.reason != "" && got.reason() != c.reason {
				t.Errorf("got the reason %q, want %q", got.reason(), c.reason)
			}
			if !json.Valid([]byte(got.body)) || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("got %s with type %s, want JSON", got.body, got.header.Get("Content-Type"))
			}
		})
	}
}

func TestOddNamesComeBackAsTheyWere(t *testing.T) {
	d := newTestAPI(t)
	for _, name := range []string{"a/b", "..", ".", "a;b", "ü 🐰", "<b>&", "a%2Fb", "a+b c", "a?b#c", "\u202etxt", "~", strings.Repeat("n", 255)} {
		path := "/api/queues/%2F/" + url.PathEscape(name)
		d.must(201, "PUT", path, `{"durable":true}`)
		var q struct{ Name string }
		d.read(path, &q)
		if q.Name != name {
			t.Errorf("got the queue %q, want %q", q.Name, name)
		}
		binding := "/api/bindings/%2F/e/amq.topic/q/" + url.PathEscape(name)
		made := d.must(201, "POST", binding, `{"routing_key":`+quote(name)+`,"arguments":{"x":1}}`)
		at := strings.LastIndex(binding, "/")
		d.must(200, "GET", binding[:at+1]+made.header.Get("Location"), "")
		var all []struct {
			Key string `json:"properties_key"`
		}
		d.read(binding, &all)
		if len(all) != 1 {
			t.Fatalf("%d bindings of %q, want 1", len(all), name)
		}
		d.must(204, "DELETE", binding+"/"+url.PathEscape(all[0].Key), "")
		d.must(204, "DELETE", path, "")
	}
	if left := d.node.Vhost("/").Queues(); len(left) != 0 {
		t.Errorf("%d queues are left, want 0", len(left))
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string can always be encoded
	return string(b)
}

func TestBrowsersOnOtherSitesAreRefused(t *testing.T) {
	d := newTestAPI(t)
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403}, {"Sec-Fetch-Site", "same-origin", 201}, {"Sec-Fetch-Site", "none", 204},
		{"Origin", "https://evil.example", 403}, {"Origin", "null", 403}, {"Origin", d.http.URL, 204},
	} {
		r, err := http.NewRequest("PUT", d.http.URL+"/api/vhosts/v", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("guest", "guest")
		r.Header.Set(c.header, c.value)
		got := d.send(r)
		if got.status != c.want {
			t.Errorf("%s: %s: got %d, want %d", c.header, c.value, got.status, c.want)
		}
		for key := range got.header {
			if strings.HasPrefix(key, "Access-Control") {
				t.Errorf("%s: %s: got the header %s, want none for other origins", c.header, c.value, key)
			}
		}
	}
}

func TestUnknownUsersLearnNothing(t *testing.T) {
	d := newTestAPI(t)
	for _, path := range []string{"/", "/api/", "/api/nothing", "/api/auth", "/metrics", "/api/queues/none"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"} {
			got := d.as("", "", method, path, "")
			if got.status != 401 || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Basic") {
				t.Errorf("%s %s without a name: got %d %v, want 401 and a challenge", method, path, got.status, got.header)
			}
		}
	}
}

// FuzzRequest looks for requests that break the API: it must answer each with JSON, and never with an internal error.
func FuzzRequest(f *testing.F) {
	d := newTestAPI(f)
	for _, seed := range []struct{ method, path, query, body string }{
		{"GET", "api/queues/%2F/q", "page=1&name=a", ""}, {"PUT", "api/queues/%2F/q", "", `{"arguments":{"x":[1,{"a":1.5}]}}`},
		{"POST", "api/exchanges/%2F//publish", "", `{"routing_key":"q","properties":{"headers":{"a":1}},"payload":"x","payload_encoding":"string"}`},
		{"POST", "api/bindings/%2F/e//q/q", "", `{}`}, {"DELETE", "api/queues/%2F/../../whoami", "", ""}, {"POST", "api/definitions", "", `{"queues":[{}]}`},
		{"PUT", "api/policies/%2F/p", "", `{"pattern":"","definition":{"max-length":1}}`}, {"GET", "metrics/per-object", "", ""},
		{"GET", "api/queues", "sort=message_stats.publish&sort_reverse=true&columns=a.b,name", ""},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.body)
	}
	handler := d.http.Config.Handler
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		u, err := url.Parse("http://localhost/" + path)
		if err != nil || strings.HasPrefix(u.Path, "/api/users") || strings.HasPrefix(u.Path, "/api/definitions") && strings.Contains(body, "users") {
			return // guest is needed
		}
		u.RawQuery = query
		r, err := http.NewRequest(method, u.String(), strings.NewReader(body))
		if err != nil {
			return
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.SetBasicAuth("guest", "guest")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable || w.Code >= 300 && w.Code < 400 {
			t.Fatalf("%s %s %q: got %d %s", method, u, body, w.Code, w.Body)
		}
		if kind := w.Header().Get("Content-Type"); kind == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: got %s, which is not JSON", method, u, w.Body)
		}
	})
}
