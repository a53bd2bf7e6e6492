package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Repair makes a directory fit to be opened again. Messages whose queues are lost, because their definitions were damaged, are in queues of
// their own then, which the report names: a start drops what no queue holds.
func Repair(ctx context.Context, dir string) (store.Report, error) {
	var recovered []store.RecoveredQueue
	report, err := store.Repair(ctx, store.Dir(dir), func(left store.Salvage) (more []store.Definition) {
		recovered, more = adopt(left)
		return more
	})
	report.Recovered = recovered
	return report, err
}

// recoveredVhost is where queues are made whose virtual host is not known.
const recoveredVhost = "/"

func recoveredName(id store.QueueID) string { return fmt.Sprintf("rehop.recovered.%d", id) }

// adopt defines a queue for each that holds messages and has no definition. Its name and its kind are not known, nor in which virtual host it
// was. One that was deleted before the file of definitions was last written anew cannot be told from one that is lost, and comes back with those
// of its messages that are still in the log.
func adopt(left store.Salvage) (made []store.RecoveredQueue, more []store.Definition) {
	orphans := maps.Clone(left.Held)
	for _, d := range slices.Concat(left.Definitions, left.Deleted) {
		var q queueDefinition
		if kind, _, err := splitKey(d.Key); err == nil && kind == queueKind && json.Unmarshal(d.Value, &q) == nil {
			delete(orphans, q.ID)
		}
	}
	// A quorum queue keeps what is not persistent too, and no limit of deliveries takes what an operator looks at.
	arguments := wire.AppendTable(nil, wire.Table{{Key: "x-queue-type", Value: "quorum"}, {Key: "x-delivery-limit", Value: int32(math.MaxInt32)}})
	for id, messages := range orphans {
		name := recoveredName(id)
		made = append(made, store.RecoveredQueue{Vhost: recoveredVhost, Name: name, Messages: messages})
		value, err := json.Marshal(queueDefinition{ID: id, Arguments: arguments})
		if err != nil {
			panic(fmt.Sprintf("encode the definition of %s: %v", name, err)) // it is plain data
		}
		more = append(more, store.Definition{Key: queueKey(recoveredVhost, name), Value: value})
	}
	slices.SortFunc(made, func(a, b store.RecoveredQueue) int { return cmp.Compare(a.Name, b.Name) })
	return made, more
}
