package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Node is a node of the broker.
type Node struct {
	Name    string
	Running bool
	// MemoryAlarm and DiskAlarm report that the node has too little memory, or too little free space on its disk. While one of them is
	// set on any node, the whole cluster accepts no messages.
	MemoryAlarm bool
	DiskAlarm   bool
	// Partitions are the nodes that it has lost.
	Partitions []string
}

// Nodes lists the nodes of the broker, sorted by name. It needs the management API, and a user with the tag monitoring.
func (a *Admin) Nodes(ctx context.Context) ([]Node, error) {
	var listed []apiNode
	if err := a.management.get(ctx, "/api/nodes?columns=name,running,mem_alarm,disk_free_alarm,partitions", &listed); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]Node, len(listed))
	for i, n := range listed {
		nodes[i] = Node{Name: n.Name, Running: n.Running, MemoryAlarm: n.MemoryFull, DiskAlarm: n.DiskFull, Partitions: n.Partitions}
	}
	slices.SortFunc(nodes, func(m, n Node) int { return strings.Compare(m.Name, n.Name) })
	return nodes, nil
}
