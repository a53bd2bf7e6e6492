package node

import (
	"context"
	"errors"
	"io"
)

// ErrInMemory is returned by Backup if nothing is durable.
var ErrInMemory = errors.New("the broker keeps everything in memory, so there is nothing to back up: run it with a data directory")

// Backup writes everything that is durable to w, as it was at one moment after the call.
func (n *Node) Backup(ctx context.Context, w io.Writer) error {
	if n.Store == nil {
		return ErrInMemory
	}
	// A restored message is as old as it would be after a restart, even if the wall clock was set a moment ago.
	n.logClock.note()
	return n.Store.Backup(ctx, w)
}
