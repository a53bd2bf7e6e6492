package node

// redeliveryMark is which messages may have been delivered without a record in the log: all that existed when the broker
// started after a crash. It is kept on disk, because the messages may still exist after the next clean stop.
type redeliveryMark struct {
	Last uint64 `json:"Last"` // the highest number of such a message
}

const redeliveryMarkKind = "doubt"

func redeliveryMarkKey() string { return definitionKey(redeliveryMarkKind) }
