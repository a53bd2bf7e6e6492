package target

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Secret is a key that signs requests, in the form of Standard Webhooks: whsec_ followed by 24 to 64 bytes in base64. Packages fmt,
// log/slog and encoding/json do not show it.
type Secret string

const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// hidden replaces a secret in output.
const hidden = secretPrefix + "…"

// Format hides the secret, whatever the verb.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, hidden) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// key returns the bytes of the secret. An error does not contain it.
func (s Secret) key() ([]byte, error) {
	text, ok := strings.CutPrefix(string(s), secretPrefix)
	if !ok {
		return nil, fmt.Errorf("it does not begin with %s", secretPrefix)
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, fmt.Errorf("what comes after %s is not base64", secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return nil, errors.New("it must have 24 to 64 bytes; make one with: openssl rand -base64 32")
	}
	return key, nil
}
