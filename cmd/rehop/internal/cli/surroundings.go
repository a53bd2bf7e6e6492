package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Surroundings are the standard streams, the environment and the terminal of a command.
type Surroundings struct {
	In       io.Reader
	Out, Err io.Writer
	// Env looks up a variable of the environment.
	Env func(name string) (value string, set bool)
	// Interactive means that In is a terminal, so that the user can be asked.
	Interactive bool
	// Width is the width of the terminal of Out. 0: Out is not a terminal.
	Width int
	// ErrTerminal means that Err is a terminal.
	ErrTerminal bool
	// Guarded means that this program can be started once more, for package guard.
	Guarded bool
}

// Terminal returns the surroundings of this process.
func Terminal() Surroundings {
	s := Surroundings{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv, Interactive: term.IsTerminal(int(os.Stdin.Fd()))}
	s.ErrTerminal = term.IsTerminal(int(os.Stderr.Fd()))
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		s.Width = 80
		if width, _, err := term.GetSize(out); err == nil && width > 0 {
			s.Width = width
		}
	}
	return s
}

func (s Surroundings) env(name string) string {
	value, _ := s.Env(name)
	return value
}

// coloured reports whether colours can be used: on a terminal, unless the environment disables them.
func (s Surroundings) coloured() bool { return s.Width > 0 && s.colours() }

// colours reports whether the environment lets a terminal have colours.
func (s Surroundings) colours() bool {
	_, no := s.Env("NO_COLOR")
	return !no && s.env("TERM") != "dumb"
}
