// Package network makes network namespaces, each joined to one bridge of the machine, for nodes between which tests break the network.
package network

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// Network is that of a state directory. Its names have a hash of the directory's path, so that they are different for each directory, and it
// can be removed whoever has made it. Its addresses follow from the directory's ports, which nobody else has meanwhile.
type Network struct{ dir state.Dir }

// Of is the network of a state directory, whether it exists or not.
func Of(dir state.Dir) Network { return Network{dir} }

// prefix begins the names of all networks.
const prefix = "rehop"

// name is that of the bridge. With that of a node it makes 15 characters at most, which is the limit for interfaces.
func (n Network) name() string {
	return prefix + fmt.Sprintf("%x", sha256.Sum256([]byte(n.dir.Path)))[:8]
}

// Namespace is the name of a node's namespace, and of the interface on the bridge that leads there. The node's name has two characters.
func (n Network) Namespace(node string) string { return n.name() + node }

// Each network has 16 addresses of 198.18.0.0/15, which RFC 2544 sets aside for tests of networks: that of the bridge, and of nodes.
const size, bits = 16, 28

// Address is that of a node, counted from 1 on; that of the bridge is 0.
func (n Network) Address(node int) string {
	i := int(n.dir.Block()) / ports.Size * size
	return fmt.Sprintf("198.18.%d.%d", i/256, i%256+1+node)
}

// Lacks is why no network can be made here, empty if it can.
func Lacks() string {
	switch _, err := exec.LookPath("ip"); {
	case err != nil:
		return "network namespaces need ip, of the package iproute2"
	case os.Getuid() != 0 || !capable():
		return "network namespaces need root with the capabilities NET_ADMIN and SYS_ADMIN"
	}
	return ""
}

// capable reports whether this process may make links and namespaces: root of a container often may not.
func capable() bool {
	const netAdmin, sysAdmin = 1 << 12, 1 << 21
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "\nCapEff:")
	var has uint64
	_, err = fmt.Sscanf(rest, "%x", &has)
	return err == nil && has&netAdmin != 0 && has&sysAdmin != 0
}

// Make makes the namespaces of nodes unless they are there. Links that are down are up afterwards.
func (n Network) Make(nodes []string) error {
	for _, node := range nodes {
		if !exists("/run/netns/" + n.Namespace(node)) {
			return n.build(nodes)
		}
	}
	for _, node := range nodes {
		if err := n.Reconnect(node); err != nil {
			return n.build(nodes)
		}
	}
	return nil
}

// build makes the namespaces anew.
func (n Network) build(nodes []string) error {
	if err := errors.Join(n.evict(), n.Remove()); err != nil {
		return err
	}
	bridge := n.name()
	commands := []string{
		"link add " + bridge + " type bridge",
		fmt.Sprintf("address add %s/%d dev %s", n.Address(0), bits, bridge),
		"link set " + bridge + " up",
	}
	for i, node := range nodes {
		space := n.Namespace(node)
		commands = append(commands,
			"netns add "+space,
			fmt.Sprintf("link add %s type veth peer name eth0 netns %s", space, space),
			fmt.Sprintf("link set %s master %s", space, bridge),
			fmt.Sprintf("link set %s up", space),
			fmt.Sprintf("-n %s address add %s/%d dev eth0", space, n.Address(i+1), bits),
			fmt.Sprintf("-n %s link set eth0 up", space),
			fmt.Sprintf("-n %s link set lo up", space),
		)
	}
	for _, command := range commands {
		if _, err := ip(command); err != nil {
			return errors.Join(err, n.Remove())
		}
	}
	return nil
}

// evict removes the network that has the bridge's address, if there is one: that of a directory that was deleted by other means than Remove.
func (n Network) evict() error {
	out, err := ip("-oneline address show to " + n.Address(0))
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line) // 7: rehop01234567    inet 198.18.0.1/28 …
		if len(fields) < 2 || !strings.HasPrefix(fields[1], prefix) {
			return fmt.Errorf("address %s is in use: %s", n.Address(0), strings.TrimSpace(line))
		}
		if err := remove(fields[1]); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes what there is of the network.
func (n Network) Remove() error { return remove(n.name()) }

// remove removes the network of a bridge. Processes in its namespaces keep them, without a link to anywhere.
func remove(bridge string) error {
	var failed []error
	links, _ := filepath.Glob("/sys/class/net/" + bridge + "*")
	for _, link := range links {
		if _, err := ip("link delete " + filepath.Base(link)); err != nil && exists(link) {
			failed = append(failed, err)
		}
	}
	spaces, _ := filepath.Glob("/run/netns/" + bridge + "*")
	for _, space := range spaces {
		if _, err := ip("netns delete " + filepath.Base(space)); err != nil && exists(space) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Isolate takes the link to a node down: what others send to it is lost, and what it sends to them.
func (n Network) Isolate(node string) error {
	_, err := ip("link set " + n.Namespace(node) + " down")
	return err
}

// Reconnect takes the link up again.
func (n Network) Reconnect(node string) error {
	_, err := ip("link set " + n.Namespace(node) + " up")
	return err
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// ip runs the command of that name, and returns what it prints.
func ip(command string) (string, error) {
	var out, errs bytes.Buffer
	c := exec.Command("ip", strings.Fields(command)...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("ip %s: %w: %s", command, err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
