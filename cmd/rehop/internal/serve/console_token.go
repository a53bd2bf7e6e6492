package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ConsoleReport is where the console is, and how to log in with the token.
type ConsoleReport struct {
	URL string `json:"url"`
	// Token is empty if it was kept by an earlier start, comes from the environment, or must not be logged.
	Token string `json:"token,omitempty"`
	// New: the token is another one at each start.
	New bool `json:"new,omitempty"`
	// TokenFile has the token. Empty: it is not kept.
	TokenFile string `json:"token_file,omitempty"`
}

// String explains the login in one line.
func (c ConsoleReport) String() string {
	switch {
	case c.Token == "" && c.New:
		return "with a token that is new at each start and is not logged: set $" + tokenVariable + ", or give users of the file a tag"
	case c.Token == "" && c.TokenFile == "":
		return "with the token of $" + tokenVariable
	case c.Token == "":
		return "with the token in " + c.TokenFile
	case c.TokenFile == "":
		return fmt.Sprintf("with the token %s, which is new at each start; $%s sets another one", c.Token, tokenVariable)
	}
	return fmt.Sprintf("with the token %s, which is not shown again; it is in %s", c.Token, c.TokenFile)
}

const (
	// tokenVariable is a variable of the environment that sets the token.
	tokenVariable = "REHOP_CONSOLE_TOKEN"
	// shortestToken is how many characters a token of the environment must have.
	shortestToken = 16
	// tokenFile is the name of the file in the data directory that has the token.
	tokenFile = "console-token"
)

// consoleToken is a token with which everybody who has it can log in.
type consoleToken struct {
	secret string
	shown  string // what is printed: the secret if it is new
	file   string // that keeps it; empty: none
}

// consoleToken returns the token of the environment, or the one in the data directory, or a new one.
func (r *running) consoleToken() (consoleToken, error) {
	if value, _ := r.Env(tokenVariable); strings.TrimSpace(value) != "" {
		secret := strings.TrimSpace(value)
		if len(secret) < shortestToken {
			return consoleToken{}, fmt.Errorf("$%s has %d characters; it must have at least %d, so that nobody can guess it", tokenVariable, len(secret), shortestToken)
		}
		return consoleToken{secret: secret}, nil
	}
	fresh := rand.Text()
	if r.Embedded == nil || r.Embedded.Data == "" {
		return consoleToken{secret: fresh, shown: fresh}, nil
	}
	path := filepath.Join(r.Embedded.Data, tokenFile)
	text, err := os.ReadFile(path)
	if kept := strings.TrimSpace(string(text)); err == nil && kept != "" {
		return consoleToken{secret: kept, file: path}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return consoleToken{}, fmt.Errorf("read the token of the console: %w; or set $%s", err, tokenVariable)
	}
	if err := writePassword(path, fresh); err != nil {
		return consoleToken{}, fmt.Errorf("keep the token of the console: %w; or set $%s", err, tokenVariable)
	}
	return consoleToken{secret: fresh, shown: fresh, file: path}, nil
}
