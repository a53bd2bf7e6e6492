package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Consumer is a consumer of a queue, of any client.
type Consumer struct {
	Queue string
	Tag   string
	// Client is the name that the client gave its connection; rehop.Config.Name and "consume" of rehop's clients. It is empty if it gave none,
	// or the user may not see it.
	Client string
	// Connection is the broker's name of the connection, which has the addresses of both ends.
	Connection string
	User       string
	// Prefetch is how many unacked messages the consumer can have. 0: any number.
	Prefetch int
	// Active consumers receive messages. The others of a queue with a single active consumer stand by.
	Active bool
	// AutoAck: messages count as acked as soon as they are sent, so those that the consumer does not handle are lost.
	AutoAck bool
}

type apiConsumerDetail struct {
	Tag      string           `json:"consumer_tag"`
	Acks     bool             `json:"ack_required"`
	Active   *bool            `json:"active"` // nil: not known
	Prefetch int              `json:"prefetch_count"`
	Queue    perhaps[apiName] `json:"queue"`
	Channel  perhaps[struct {
		Connection string `json:"connection_name"`
		User       string `json:"user"`
	}] `json:"channel_details"`
}

// Consumers lists the consumers of a queue, or of all queues if the name is empty, by queue and then by client. It needs the management
// API. A user without the tag monitoring sees only its own consumers.
func (a *Admin) Consumers(ctx context.Context, queue string) ([]Consumer, error) {
	var listed []apiConsumerDetail
	const columns = "consumer_tag,ack_required,active,prefetch_count,queue.name,channel_details.connection_name,channel_details.user"
	if err := a.management.get(ctx, "/api/consumers/%s?columns="+columns, &listed); err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	var connections []apiConnection
	err := a.management.get(ctx, "/api/vhosts/%s/connections?columns=name,client_properties.connection_name", &connections)
	if err != nil && !refused(err) {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	names := make(map[string]string)
	for _, c := range connections {
		names[c.Name] = c.Client.object.Name
	}
	var all []Consumer
	for _, c := range listed {
		if of := c.Queue.object.Name; queue == "" || of == queue {
			connection := c.Channel.object.Connection
			all = append(all, Consumer{Queue: of, Tag: c.Tag, Client: names[connection], Connection: connection, User: c.Channel.object.User, Prefetch: c.Prefetch,
				Active: c.Active == nil || *c.Active, AutoAck: !c.Acks})
		}
	}
	slices.SortFunc(all, func(x, y Consumer) int {
		return cmp.Or(cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Client, y.Client), cmp.Compare(x.Connection, y.Connection), cmp.Compare(x.Tag, y.Tag))
	})
	return all, nil
}
