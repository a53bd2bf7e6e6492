package target_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

// A receiver that knows one of the secrets, and the rules of Standard Webhooks, finds the signature right.
func TestSignature(t *testing.T) {
	t.Parallel()
	server, requests := record(t)
	keys := [][]byte{[]byte("0123456789abcdef01234567"), []byte("another secret, which is the new one")}
	var secrets []target.Secret
	for _, key := range keys {
		secrets = append(secrets, target.Secret("whsec_"+base64.StdEncoding.EncodeToString(key)))
	}
	for n := range len(secrets) + 1 {
		h := open(t, &target.HTTP{URL: server.URL, Secrets: secrets[:n]})
		before := time.Now().Unix()
		if err := h.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{ID: "msg ä", Body: []byte("{\"a\":\x00.1}")}}); err != nil {
			t.Fatal(err)
		}
		r := <-requests
		id, timestamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		want(t, "id", id, "msg %C3%A4")
		if at, err := strconv.ParseInt(timestamp, 10, 64); err != nil || at < before || at > time.Now().Unix() {
			t.Errorf("timestamp: got %q, want now in seconds", timestamp)
		}
		signatures := strings.Fields(r.Header.Get("webhook-signature"))
		want(t, "signatures", len(signatures), n)
		for _, key := range keys[:n] {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(id))
			mac.Write([]byte{'.'})
			mac.Write([]byte(timestamp))
			mac.Write([]byte{'.'})
			mac.Write(r.body)
			if own := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !slices.Contains(signatures, own) {
				t.Errorf("got signatures %q, want %s among them", signatures, own)
			}
		}
	}
}
