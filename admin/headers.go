package admin

import "maps"

// rascal is the header in which the Node library of that name keeps its own record of a message.
const rascal = "rascal"

// replayedHeaders are the headers of a message with which it is replayed: without those whose names are given, and without what other libraries
// count failures by. A name with a * at its end stands for all that begin so.
//
// rascal notes in its header what it has done with a message (recovery), among it that it is to be rejected the next time (immediateNack) unless its x-death
// has grown since. A replay takes x-death away, so with that note the message would go straight back to the failed queue. The rest of that
// header is kept: it may say where the message came from, and how it is encrypted.
func replayedHeaders(headers map[string]any, drop []string) map[string]any {
	kept := maps.Clone(headers)
	for _, pattern := range drop {
		maps.DeleteFunc(kept, func(name string, _ any) bool { return keyMatches(pattern, name) })
	}
	if record, ok := kept[rascal].(map[string]any); ok {
		record = maps.Clone(record)
		delete(record, "recovery")
		delete(record, "error")
		delete(record, "redeliveries")
		if kept[rascal] = record; len(record) == 0 {
			delete(kept, rascal)
		}
	}
	return kept
}
