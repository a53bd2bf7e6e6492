package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	attemptCookie = "rehop-login"
	// attemptLasts is how long a login at a provider may take.
	attemptLasts = 10 * time.Minute
	// maxNext is how long the address of the page after the login may be, so that the cookie has a size that browsers accept.
	maxNext = 1500
)

// LoginAttempt has the random values of one login at a provider. Only the browser in which it began can finish it.
type LoginAttempt struct {
	State    string // comes back from the provider in the query
	Nonce    string // comes back from the provider in what it has signed
	Verifier string // proves to the provider that the one who began also finishes (PKCE)
}

// attempt is what the cookie of a login at a provider has. It is sealed: strangers begin logins, so the server keeps nothing of them.
type attempt struct {
	LoginAttempt
	Next  string // the page after the login
	Until time.Time
}

func newAttempt(next string) attempt {
	if len(next) > maxNext {
		next = ""
	}
	random := func() string {
		secret := make([]byte, 32)
		rand.Read(secret)
		return base64.RawURLEncoding.EncodeToString(secret)
	}
	return attempt{LoginAttempt{State: random(), Nonce: random(), Verifier: random()}, next, time.Now().Add(attemptLasts)}
}

// newSeal returns a seal with a random key, which ends with the console.
func newSeal() (cipher.AEAD, error) {
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal cookies: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (a attempt) sealed(seal cipher.AEAD) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("begin a login: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(seal.Seal(nil, nil, text, []byte(attemptCookie))), nil
}

// unsealed returns the attempt of a cookie, unless it is too old, or of another process.
func unsealed(seal cipher.AEAD, cookie string) (a attempt, err error) {
	box, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return a, err
	}
	text, err := seal.Open(nil, nil, box, []byte(attemptCookie))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, err
	}
	if !time.Now().Before(a.Until) {
		return a, errors.New("the login took too long")
	}
	return a, nil
}
