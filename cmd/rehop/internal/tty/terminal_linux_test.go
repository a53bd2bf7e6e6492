package tty

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/term"
)

// newTerminal opens a pseudoterminal of a size.
func newTerminal(t *testing.T, columns, lines uint16) *os.File {
	t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { main.Close() })
	var number, unlocked int32
	size := [4]uint16{lines, columns}
	for request, argument := range map[uintptr]unsafe.Pointer{
		syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSPTLCK: unsafe.Pointer(&unlocked), syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} {
		if err := control(int(main.Fd()), request, argument); err != nil {
			t.Fatal(err)
		}
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal
}

// On Linux, a terminal is set as golang.org/x/term sets it elsewhere, and is set back afterwards.
func TestRaw(t *testing.T) {
	fd := int(newTerminal(t, 80, 24).Fd())
	modes := func() syscall.Termios {
		t.Helper()
		m, err := modesOf(fd)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	// Raw mode ends all that a new terminal does, and more.
	all := modes()
	all.Iflag |= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP | syscall.INLCR | syscall.IGNCR | syscall.ICRNL | syscall.IXON
	all.Lflag |= syscall.ECHONL
	all.Cc[syscall.VMIN], all.Cc[syscall.VTIME] = 3, 3
	if err := setModes(fd, all); err != nil {
		t.Fatal(err)
	}
	before := modes()
	others, err := term.MakeRaw(fd)
	if err != nil {
		t.Fatal(err)
	}
	want := modes()
	if err := term.Restore(fd, others); err != nil {
		t.Fatal(err)
	}
	restore, err := makeRaw(fd)
	if err != nil {
		t.Fatal(err)
	}
	if got := modes(); got != want || got == before {
		t.Errorf("raw: got %+v, want %+v as golang.org/x/term; before: %+v", got, want, before)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if got := modes(); got != before {
		t.Errorf("restored: got %+v, want %+v", got, before)
	}
}

func TestTerminal(t *testing.T) {
	terminal := newTerminal(t, 132, 43)
	size := SizeOf(terminal)
	if size == nil {
		t.Fatal("a terminal is not seen as one")
	}
	if width, height := size(); width != 132 || height != 43 {
		t.Errorf("got %d columns and %d lines, want 132 and 43", width, height)
	}
	if size := SizeOf(newTerminal(t, 0, 0)); size == nil {
		t.Error("a terminal without a size is not seen as one")
	} else if width, height := size(); width != 80 || height != 24 {
		t.Errorf("without a size: got %d columns and %d lines, want 80 and 24", width, height)
	}
	for _, name := range []string{os.DevNull, t.TempDir()} {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if SizeOf(file) != nil {
			t.Errorf("%s is seen as a terminal", name)
		}
		if keys, _ := Keys(t.Context(), file); keys != nil {
			t.Errorf("keys are read from %s, which is not a terminal", name)
		}
	}
}
