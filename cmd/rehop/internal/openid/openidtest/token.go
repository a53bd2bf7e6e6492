package openidtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"testing"
)

// Key signs tokens.
type Key struct {
	ID  string
	alg string
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	// secret is for HS256.
	secret []byte
}

// NewRSA returns a key for RS256.
func NewRSA(t testing.TB, id string) *Key {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{ID: id, alg: "RS256", rsa: key}
}

// NewEC returns a key for ES256.
func NewEC(t testing.TB, id string) *Key {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{ID: id, alg: "ES256", ec: key}
}

// Unsigned is the key of tokens that nobody has signed.
func Unsigned() *Key { return &Key{alg: "none"} }

// Shared is a key for HS256 whose secret is the public part of another key, which everybody knows.
func (k *Key) Shared(t testing.TB) *Key {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&k.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{ID: k.ID, alg: "HS256", secret: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
}

// published is the public part, as the provider publishes it.
func (k *Key) published() map[string]any {
	number := func(n []byte) string { return base64.RawURLEncoding.EncodeToString(n) }
	if k.ec != nil {
		point, err := k.ec.PublicKey.Bytes()
		if err != nil {
			return nil
		}
		return map[string]any{"kty": "EC", "crv": "P-256", "kid": k.ID, "use": "sig", "alg": k.alg, "x": number(point[1:33]), "y": number(point[33:])}
	}
	return map[string]any{"kty": "RSA", "kid": k.ID, "use": "sig", "alg": k.alg, "n": number(k.rsa.N.Bytes()), "e": number(big.NewInt(int64(k.rsa.E)).Bytes())}
}

func (k *Key) sign(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	switch k.alg {
	case "RS256":
		signature, err := rsa.SignPKCS1v15(nil, k.rsa, crypto.SHA256, sum[:])
		if err != nil {
			return nil
		}
		return signature
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, k.ec, sum[:])
		if err != nil {
			return nil
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "HS256":
		mac := hmac.New(sha256.New, k.secret)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	return nil
}

// Token is an ID token before it is signed.
type Token struct {
	Header, Claims map[string]any
	Key            *Key
	// Edit changes the token after it was signed.
	Edit func(token string) string
}

// String is the signed token.
func (t *Token) String() string {
	if t.Header["alg"] = t.Key.alg; t.Key.ID != "" {
		t.Header["kid"] = t.Key.ID
	}
	part := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(t.Header) + "." + part(t.Claims)
	text += "." + base64.RawURLEncoding.EncodeToString(t.Key.sign(text))
	if t.Edit != nil {
		return t.Edit(text)
	}
	return text
}
