package rabbitmq

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// get asks the node's management API. into may be nil.
func (n *Node) get(path string, into any) error {
	request, err := http.NewRequest("GET", fmt.Sprintf("http://%s:%d%s", n.host(), n.ports().Management, path), nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth("guest", "guest")
	response, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s of %s: %s", path, n.Name, response.Status)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(into)
}
