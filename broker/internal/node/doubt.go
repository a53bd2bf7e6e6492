package node

import (
	"encoding/json"
	"fmt"

	"github.com/rehop/rehop/broker/internal/store"
)

// doubt is which messages may have been delivered although nobody wrote that down: all those that were there when the broker started after
// a crash. It is kept on disk, because the next stop may be in order, and the message still there.
type doubt struct {
	Last uint64 `json:"Last"` // the highest number of such a message
}

const doubtKind = "doubt"

func doubtKey() string { return definitionKey(doubtKind) }

// restoreDoubt finds it among the definitions.
func restoreDoubt(all []store.Definition) (d doubt, err error) {
	for _, one := range all {
		if one.Key == doubtKey() {
			if err := json.Unmarshal(one.Value, &d); err != nil {
				return d, fmt.Errorf("definition %s: %w", one.Key, err)
			}
		}
	}
	return d, nil
}
