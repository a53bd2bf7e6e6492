package triage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/rabbit"
)

// lineage is the same for everything that is known of a message: for a copy of it from the feed, for the message in its failed queue, and
// for the same message when it fails again after a replay. Two messages in a queue can have the same lineage, because a publisher has sent
// one twice; an ordinal distinguishes their rows.
type lineage [16]byte

// lineageOf computes it of the message's id, and of its contents if it has none.
func lineageOf(m *Message) (l lineage, err error) {
	if l, ok := lineageIn(m.ID); ok {
		return l, nil
	}
	h := sha256.New()
	if m.ID != "" {
		add(h, "id", m.FailedQueue, m.Queue, m.ID)
	} else {
		headers, err := headerjson.Marshal(m.Headers)
		if err != nil {
			return l, fmt.Errorf("message without an id in queue %q: %w", m.FailedQueue, err)
		}
		add(h, "contents", m.FailedQueue, m.Queue, m.Exchange, m.Key, m.Type, m.CorrelationID, m.AppID, m.ContentType,
			strconv.FormatInt(moment(m.Timestamp), 10), string(headers))
		h.Write(m.Body)
	}
	copy(l[:], h.Sum(nil))
	return l, nil
}

// givenID begins an id that a message without one gets when it is replayed to its own queue. The lineage follows, so that it is the same message when
// it fails again.
const givenID = "rehop-given-"

// newID is an id for a message without one.
func (l lineage) newID() string { return givenID + hex.EncodeToString(l[:]) + "-" + rabbit.NewID() }

// lineageIn is the lineage that an id has from newID.
func lineageIn(id string) (l lineage, ok bool) {
	text, ok := strings.CutPrefix(id, givenID)
	if !ok || len(text) <= 2*len(l) || text[2*len(l)] != '-' {
		return l, false
	}
	_, err := hex.Decode(l[:], []byte(text[:2*len(l)]))
	return l, err == nil
}

// add writes texts so that no two lists of texts are the same bytes.
func add(h hash.Hash, texts ...string) {
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:])
		h.Write([]byte(text))
	}
}

// ref is the name of a row for users.
func (l lineage) ref(ordinal int) string {
	text := hex.EncodeToString(l[:])
	if ordinal > 0 {
		text += "-" + strconv.Itoa(ordinal)
	}
	return text
}

// parseRef is the reverse of ref.
func parseRef(ref string) (l lineage, ordinal int, err error) {
	text, number, numbered := strings.Cut(ref, "-")
	if numbered {
		ordinal, err = strconv.Atoi(number)
	}
	if n, decodeErr := hex.Decode(l[:], []byte(shorten(text, 2*len(l)))); err != nil || decodeErr != nil || n != len(l) || len(text) != 2*len(l) || ordinal < 0 {
		return l, 0, fmt.Errorf("%q is not the ref of a message", ref)
	}
	return l, ordinal, nil
}

// failure is one time that a message of a lineage has failed. A copy from the feed and the message in its failed queue have the same.
type failure struct {
	at       int64 // moment; 0 if it is not known
	attempts int
	replays  int
	digest   int64 // of what else two messages with the same id can differ in
}

func failureOf(m *Message) failure {
	h := sha256.New()
	add(h, m.Exchange, m.Key, m.Kind, m.Error)
	h.Write(m.Body)
	return failure{at: moment(m.FailedAt), attempts: m.Attempts, replays: m.Replays, digest: int64(binary.BigEndian.Uint64(h.Sum(nil)))}
}

// before reports whether a failure of the same message happened earlier than another one.
func (f failure) before(other failure) bool {
	if f.replays != other.replays {
		return f.replays < other.replays
	}
	return f.at < other.at
}

// Rows are numbered by the time of their failure, so that all lists are in the order of the primary key: the number is a moment followed by
// bits that distinguish rows of the same one. If a moment has more rows, they get the next free numbers. The bits are few because indexes of
// text store the differences of numbers.
const numberBits = 8

func firstNumber(moment int64) int64 { return moment << numberBits }

// number is the number that a row should have, if it is free.
func (l lineage) number(moment int64) int64 { return firstNumber(moment) | int64(l[15]) }
