package node

import (
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// noClients is for nodes without clients.
type noClients struct{}

func (noClients) Shutdown(string)                                    {}
func (noClients) DiskFailed(error)                                   {}
func (noClients) CloseConnections(string, func(string, *Vhost) bool) {}
func (noClients) AlarmChanged(Alarm, bool)                           {}
func (noClients) MemoryShort()                                       {}
func (noClients) Synced(store.Mark)                                  {}
func (noClients) EachUnacked(func(*Queue, queue.Item))               {}

func openAlone(c Config) (*Node, error) {
	return Open(c, func(*Node) Clients { return noClients{} })
}
