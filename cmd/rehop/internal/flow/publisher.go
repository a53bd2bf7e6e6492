package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop"
)

// publisher is the client of forwards and relays. Its errors name the key of the file that limits a body.
type publisher struct {
	*rehop.Client
	maxBody int
}

// usualBody is the default limit of a client.
const usualBody = 16 << 20

func (g *generation) publisher() publisher {
	return publisher{g.client, cmp.Or(g.file.MaxBody, usualBody)}
}

// Publish publishes a message.
func (p publisher) Publish(ctx context.Context, m rehop.Message) error {
	return p.explain(p.Client.Publish(ctx, m), len(m.Body))
}

// PublishEach publishes messages.
func (p publisher) PublishEach(ctx context.Context, messages []rehop.Message, settled func(i int, err error)) {
	p.Client.PublishEach(ctx, messages, func(i int, err error) { settled(i, p.explain(err, len(messages[i].Body))) })
}

func (p publisher) explain(err error, size int) error {
	if errors.Is(err, rehop.ErrTooLarge) && size > p.maxBody {
		return fmt.Errorf("%w; max-body in the file sets it", err)
	}
	return err
}
