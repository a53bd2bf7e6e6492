package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Surroundings is where a command runs: what it reads, where it writes, and what it is told by the environment.
type Surroundings struct {
	In       io.Reader
	Out, Err io.Writer
	// Env looks up a variable of the environment.
	Env func(name string) (value string, set bool)
	// Interactive: a person sits before In, and can be asked.
	Interactive bool
	// Width is that of the terminal behind Out. 0: there is none, and what is printed is for programs or files.
	Width int
}

// Terminal is the surroundings of this process.
func Terminal() Surroundings {
	s := Surroundings{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv, Interactive: term.IsTerminal(int(os.Stdin.Fd()))}
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		s.Width = 80
		if width, _, err := term.GetSize(out); err == nil && width > 0 {
			s.Width = width
		}
	}
	return s
}

// env is a variable of the environment, or a fallback.
func (s Surroundings) env(name, fallback string) string {
	if value, set := s.Env(name); set && value != "" {
		return value
	}
	return fallback
}

// coloured reports whether colours may be used: on a terminal, by somebody who has not said no.
func (s Surroundings) coloured() bool {
	_, no := s.Env("NO_COLOR")
	return s.Width > 0 && !no && s.env("TERM", "") != "dumb"
}
