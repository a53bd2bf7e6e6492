package tty

import (
	"syscall"
	"unsafe"
)

// The demo is compiled by everybody who tries rehop. golang.org/x/term would bring it golang.org/x/sys, of which it needs these few calls.

func isTerminal(fd int) bool {
	_, err := modesOf(fd)
	return err == nil
}

// makeRaw sets a terminal to raw mode, which restore ends.
func makeRaw(fd int) (restore func() error, err error) {
	before, err := modesOf(fd)
	if err != nil {
		return nil, err
	}
	raw := before
	raw.Iflag &^= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP | syscall.INLCR | syscall.IGNCR | syscall.ICRNL | syscall.IXON
	raw.Oflag &^= syscall.OPOST
	raw.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	raw.Cflag = raw.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8
	raw.Cc[syscall.VMIN], raw.Cc[syscall.VTIME] = 1, 0
	if err := setModes(fd, raw); err != nil {
		return nil, err
	}
	return func() error { return setModes(fd, before) }, nil
}

func modesOf(fd int) (modes syscall.Termios, err error) {
	err = control(fd, syscall.TCGETS, unsafe.Pointer(&modes))
	return modes, err
}

func setModes(fd int, modes syscall.Termios) error {
	return control(fd, syscall.TCSETS, unsafe.Pointer(&modes))
}

// sizeOf returns the columns and lines of a terminal.
func sizeOf(fd int) (width, height int, err error) {
	var size struct{ lines, columns, _, _ uint16 } // struct winsize
	err = control(fd, syscall.TIOCGWINSZ, unsafe.Pointer(&size))
	return int(size.columns), int(size.lines), err
}

func control(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
