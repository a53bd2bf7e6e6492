package node

import (
	"encoding/json"
	"fmt"

	"github.com/rehop/rehop/broker/internal/store"
)

// redeliveryMark is which messages may have been delivered although nobody wrote that down: all those that were there when the broker started after
// a crash. It is kept on disk, because the next stop may be in order, and the message still there.
type redeliveryMark struct {
	Last uint64 `json:"Last"` // the highest number of such a message
}

const redeliveryMarkKind = "doubt"

func redeliveryMarkKey() string { return definitionKey(redeliveryMarkKind) }

// restoreRedeliveryMark finds it among the definitions.
func restoreRedeliveryMark(all []store.Definition) (d redeliveryMark, err error) {
	for _, one := range all {
		if one.Key == redeliveryMarkKey() {
			if err := json.Unmarshal(one.Value, &d); err != nil {
				return d, fmt.Errorf("definition %s: %w", one.Key, err)
			}
		}
	}
	return d, nil
}
