package layouts

import "strings"

// Why cases fail from RabbitMQ 4 on. That a fleet's own count stands still there is the seed's flaw: rehop counts on in its own header, so
// what rehop handles reaches the failed queue anyway. The file newer_cases.go has what happens there instead.
const (
	deathsUnread = "RabbitMQ 4 does not read an x-death that a client sends, so neither side sees how often the other has failed a message"
	seedLoops    = "RabbitMQ 4 does not read an x-death that a client sends, so the seed's own worker retries forever"
	marked       = "a classic queue of RabbitMQ 4.3 marks a rejected message as redelivered, so rehop publishes it anew, and the broker's count begins again"
	nackIsFree   = "RabbitMQ 4.3 does not count what a consumer gives back, so a quorum queue's delivery limit is never met"
)

// unsure are exceptions that are not run: time does not pass in a bubble in which a message goes round without a pause, and what is rejected
// is not marked if a consumer waits for it. What happens instead is a case of its own for these, too.
var unsure = map[string]bool{"envelope/DeliveryLimit": true, "sneakers/SeedCountsOnAfterRejects": true}

// Exceptions are the cases that fail on a release of RabbitMQ, unlike on 3.10, by name, with the reason.
func Exceptions(release string) map[string]string {
	if strings.HasPrefix(release, "3.") {
		return nil
	}
	except := map[string]string{
		"pubsub/RehopCountsOn":               deathsUnread,
		"pubsub/OtherWaitsAreCountedToo":     deathsUnread,
		"pubsub/RetryAfterHidesTheCountOnce": deathsUnread,
		"pubsub/SeedCountsOn":                seedLoops,
		"pubsub/SeedRetriesFourTimes":        seedLoops,
		"pubsub/ByQueueRehopCountsOn":        deathsUnread,
		"pubsub/ByQueueFleetCountsOn":        seedLoops,
		"tiers/RehopCountsOn":                deathsUnread,
		"tiers/SeedCountsOn":                 deathsUnread,
		"sneakers/SeedCountsOn":              deathsUnread,
	}
	if release >= "4.3" {
		except["envelope/DeliveryLimit"] = nackIsFree
		except["sneakers/SeedCountsOnAfterRejects"] = marked
	}
	return except
}
