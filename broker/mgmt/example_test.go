package mgmt_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
)

// A program serves the API with an http.Server; here a test server does.
func ExampleHandler() {
	server := &broker.Server{}
	defer func() { _ = server.Close() }()
	handler, err := mgmt.Handler(server)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()

	request := func(method, path, body string) {
		r, err := http.NewRequest(method, web.URL+path, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		r.SetBasicAuth("guest", "guest")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.TrimSpace(method + " " + answer.Status + " " + string(content)))
	}
	request("PUT", "/api/queues/%2F/orders", `{"durable":true}`)
	request("POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"orders","properties":{},"payload":"hello","payload_encoding":"string"}`)
	request("GET", "/api/queues/%2F?columns=name,messages_ready", "")

	// Output:
	// PUT 201 Created
	// POST 200 OK {"routed":true}
	// GET 200 OK [{"messages_ready":1,"name":"orders"}]
}
