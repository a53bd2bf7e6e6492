package target

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrSignature is the error of a request that was not signed with one of the secrets, or not recently. Answer it with 401, which sends
// the message to the failed queue at once.
var ErrSignature = errors.New("the signature cannot be verified")

// MaxClockSkew is by how much the time of a signature may differ from the time of the receiver. A request that somebody has recorded cannot
// be repeated later.
const MaxClockSkew = 5 * time.Minute

// Verify returns nil if a request was signed with one of the secrets, not more than [MaxClockSkew] ago. Otherwise the error is an
// [ErrSignature]. It is for receivers of what [HTTP] and other senders of Standard Webhooks send. The body must be exactly what was
// received, before it is decoded. To replace a secret, pass the old and the new one until the sender uses only the new one.
//
// Verify does not recognize a request that is repeated within that time: rehop itself repeats a message whose answer was lost. Use the
// header Webhook-Id for that.
func Verify(header http.Header, body []byte, secrets ...Secret) error {
	if len(secrets) == 0 {
		return fmt.Errorf("%w: there is no secret", ErrSignature)
	}
	id, timestamp, signatures := header.Get(HeaderID), header.Get(HeaderTimestamp), strings.Fields(header.Get(HeaderSignature))
	if id == "" || timestamp == "" || len(signatures) == 0 {
		return fmt.Errorf("%w: one of the headers %s, %s and %s is missing", ErrSignature, HeaderID, HeaderTimestamp, HeaderSignature)
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is not a number of seconds", ErrSignature, HeaderTimestamp)
	}
	if age := time.Since(time.Unix(seconds, 0)); age > MaxClockSkew || age < -MaxClockSkew {
		return fmt.Errorf("%w: it was made %v ago, and %v are allowed; compare the clocks of both machines", ErrSignature, age.Round(time.Second), MaxClockSkew)
	}
	matches := false
	for i, secret := range secrets {
		key, err := secret.key()
		if err != nil {
			return fmt.Errorf("%w: secret %d: %w", ErrSignature, i+1, err)
		}
		want := signature(key, id, timestamp, body)
		for _, given := range signatures {
			// All are compared, each in constant time: how long it takes reveals nothing about the signature that was expected.
			matches = isSignature(given, want) || matches
		}
	}
	if !matches {
		return fmt.Errorf("%w: no signature belongs to this body and a known secret", ErrSignature)
	}
	return nil
}

// isSignature compares a signature of a header with the expected one, in constant time.
func isSignature(given string, want []byte) bool {
	text, ok := strings.CutPrefix(given, signatureVersion)
	mac, err := base64.StdEncoding.DecodeString(text)
	return hmac.Equal(mac, want) && ok && err == nil
}
