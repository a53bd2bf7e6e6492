package main

import (
	"os"
	"os/exec"
	"syscall"
)

// confine has a program run with a directory as its root, as a user. Without root's rights, it does so in a user namespace.
func confine(cmd *exec.Cmd, root string, user int) error {
	id := uint32(user)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: id, Gid: id}}
		return nil
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
	}
	return nil
}
