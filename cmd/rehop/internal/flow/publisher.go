package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop"
)

// publisher is the client of forwards and relays. Its errors speak of the file, where the limit of a body is set.
type publisher struct {
	*rehop.Client
	maxBody int
}

// usualBody is the limit of a client that is not told another one.
const usualBody = 16 << 20

func (g *generation) publisher() publisher {
	return publisher{g.client, cmp.Or(g.file.MaxBody, usualBody)}
}

// Publish publishes a message.
func (p publisher) Publish(ctx context.Context, m rehop.Message) error {
	return p.inTermsOfTheFile(p.Client.Publish(ctx, m), len(m.Body))
}

// PublishBatch publishes messages.
func (p publisher) PublishBatch(ctx context.Context, messages []rehop.Message) error {
	err := p.Client.PublishBatch(ctx, messages)
	if batch, ok := errors.AsType[*rehop.BatchError](err); ok {
		for i, one := range batch.Errors {
			batch.Errors[i] = p.inTermsOfTheFile(one, len(messages[i].Body))
		}
	}
	return err
}

func (p publisher) inTermsOfTheFile(err error, size int) error {
	if errors.Is(err, rehop.ErrTooLarge) && size > p.maxBody {
		return fmt.Errorf("%w; max-body in the file sets it", err)
	}
	return err
}
