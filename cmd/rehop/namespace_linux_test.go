package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// runInNamespace runs a program in a network namespace of its own. Its output is nil if the program could not be started there.
func runInNamespace(cmd *exec.Cmd) ([]byte, error) {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	// A user namespace lets users who are not root create the other one.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Start()
	if err != nil && os.Getuid() == 0 { // there may be no user namespaces, which root does not need
		again := exec.Command(cmd.Path, cmd.Args[1:]...)
		again.Env, again.Stdout, again.Stderr = cmd.Env, &output, &output
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		cmd, err = again, again.Start()
	}
	if err != nil {
		return nil, err
	}
	err = cmd.Wait()
	return append([]byte{}, output.Bytes()...), err
}

// loopbackUp enables the loopback interface, which is down in a new namespace.
func loopbackUp() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	var request struct { // struct ifreq of netdevice(7)
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); code != 0 {
		return fmt.Errorf("enable the loopback interface: %w", code)
	}
	return nil
}
