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

// Repair makes a damaged directory usable. Messages whose queue definition is lost go to new queues, which the report
// lists: otherwise a start would drop messages without a queue.
func Repair(ctx context.Context, dir string) (store.Report, error) {
	var recovered []store.RecoveredQueue
	report, err := store.Repair(ctx, store.Dir(dir), func(left store.Salvage) (more []store.Definition) {
		recovered, more = adopt(left)
		return more
	})
	report.Recovered = recovered
	return report, err
}

// recoveredVhost is where queues are created whose virtual host is unknown.
const recoveredVhost = "/"

func recoveredName(id store.QueueID) string { return fmt.Sprintf("rehop.recovered.%d", id) }

// adopt defines a queue for each that has messages and no definition. Its name, its type and its virtual host are
// unknown. A queue that was deleted before the file of definitions was last rewritten looks the same as a lost one, and
// comes back with those of its messages that are still in the log.
func adopt(left store.Salvage) (made []store.RecoveredQueue, more []store.Definition) {
	orphans := maps.Clone(left.Held)
	for _, d := range slices.Concat(left.Definitions, left.Deleted) {
		var q queueDefinition
		if kind, _, err := splitKey(d.Key); err == nil && kind == queueKind && json.Unmarshal(d.Value, &q) == nil {
			delete(orphans, q.ID)
		}
	}
	// A quorum queue also keeps messages that are not persistent, and without a delivery limit an operator can read them often.
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
