package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// refusals are the answers of machines that permit no other root directory, or no user namespaces.
var refusals = []error{syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.ENOSYS, syscall.EINVAL}

// confine has a program run with a directory as its root, as a user. Without root's rights, it does so in a user namespace. An error
// means that this machine does not permit it.
func confine(cmd *exec.Cmd, root string, user int) error {
	id := uint32(user)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: id, Gid: id}}
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
		}
	}
	try := exec.Command(cmd.Path, "version")
	try.Dir, try.Env, try.SysProcAttr = cmd.Dir, cmd.Env, cmd.SysProcAttr
	err := try.Run()
	if slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }) {
		return fmt.Errorf("this machine permits no other root directory: %w", err)
	}
	return nil // what else may be wrong, the caller finds
}
