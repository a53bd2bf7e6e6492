package serve

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/outbox"
)

// outboxes are the databases of the outboxes of the loaded file, for the console.
type outboxes struct {
	broker *adminBroker // knows the loaded file

	mu     sync.Mutex
	opened map[database.Source]*sql.DB
}

func newOutboxes(b *adminBroker) *outboxes {
	return &outboxes{broker: b, opened: make(map[database.Source]*sql.DB)}
}

// list returns the outboxes. It opens pools, which connect when they are used.
func (o *outboxes) list(context.Context) (all []console.Outbox, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range o.broker.file.Load().Outboxes {
		db := o.opened[one.Database]
		if db == nil {
			if db, err = one.Database.Open(); err != nil {
				return nil, err
			}
			db.SetMaxIdleConns(1)
			o.opened[one.Database] = db
		}
		all = append(all, console.Outbox{Name: one.Name, Inspector: outbox.Inspector{DB: db, Dialect: one.Database.Dialect, Tables: one.Tables}})
	}
	return all, nil
}

func (o *outboxes) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var faults []error
	for _, db := range o.opened {
		faults = append(faults, db.Close())
	}
	return errors.Join(faults...)
}
