package node

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// deathsOf lists the entries of x-death: queue, reason and count.
func deathsOf(deaths wire.Array) string {
	var all []string
	for _, e := range deaths {
		t, ok := e.(wire.Table)
		if !ok {
			all = append(all, fmt.Sprint(e))
			continue
		}
		count, _ := t.Get("count")
		all = append(all, fmt.Sprintf("%s %s %v", TextField(t, "queue"), TextField(t, "reason"), count))
	}
	return strings.Join(all, ", ")
}

func diedIn(q string, why queue.Reason) death {
	return death{queue: q, reason: why, exchange: "x", keys: []string{"k"}, time: time.Unix(5, 0)}
}

func TestNoteDeath(t *testing.T) {
	var headers wire.Table
	var deaths wire.Array
	for _, step := range []struct {
		death death
		want  string
	}{
		{diedIn("a", queue.Expired), "a expired 1"},
		{diedIn("b", queue.Rejected), "b rejected 1, a expired 1"},
		{diedIn("a", queue.Expired), "a expired 2, b rejected 1"},
		// 3.10 reverses the older ones.
		{diedIn("a", queue.Rejected), "a rejected 1, b rejected 1, a expired 2"},
		{diedIn("b", queue.Rejected), "b rejected 2, a expired 2, a rejected 1"},
	} {
		headers, deaths = addDeath(RabbitMQ310, headers, true, step.death)
		if got := deathsOf(deaths); got != step.want {
			t.Errorf("after %s %s: got %s, want %s", step.death.queue, step.death.reason, got, step.want)
		}
	}
	got := TextField(headers, "x-first-death-queue") + " " + TextField(headers, "x-first-death-reason") + " " + TextField(headers, "x-first-death-exchange")
	if want := "a expired x"; got != want {
		t.Errorf("first death: got %q, want %q", got, want)
	}
	if _, there := headers.Get("x-last-death-queue"); there {
		t.Error("3.10 notes the last death")
	}
}

func TestNoteDeathInFull(t *testing.T) {
	d := diedIn("q", queue.MaxLength)
	d.keys, d.expiration = []string{"k", "cc"}, "100"
	headers, _ := addDeath(RabbitMQ313, table("z", "kept", "b", true), false, d)
	want := `[{<<"b">>,bool,true},{<<"x-death">>,array,[{table,[{<<"count">>,long,1},{<<"reason">>,longstr,<<"maxlen">>},{<<"queue">>,longstr,<<"q">>},` +
		`{<<"time">>,timestamp,5},{<<"exchange">>,longstr,<<"x">>},{<<"routing-keys">>,array,[{longstr,<<"k">>},{longstr,<<"cc">>}]},` +
		`{<<"original-expiration">>,longstr,<<"100">>}]}]},` +
		`{<<"x-first-death-exchange">>,longstr,<<"x">>},{<<"x-first-death-queue">>,longstr,<<"q">>},{<<"x-first-death-reason">>,longstr,<<"maxlen">>},` +
		`{<<"x-last-death-exchange">>,longstr,<<"x">>},{<<"x-last-death-queue">>,longstr,<<"q">>},{<<"x-last-death-reason">>,longstr,<<"maxlen">>},` +
		`{<<"z">>,longstr,<<"kept">>}]`
	if got := erlang.Term(headers); got != want {
		t.Errorf("headers:\n got %s\nwant %s", got, want)
	}
}

// TestDeathsOfClients has what becomes of an x-death header that a client has sent.
func TestDeathsOfClients(t *testing.T) {
	sent := wire.Array{wire.Table{{Key: "queue", Value: "q"}, {Key: "reason", Value: "expired"}, {Key: "count", Value: int32(7)}}, "odd"}
	for _, c := range []struct {
		name   string
		compat Compat
		ours   bool
		value  any
		want   string
	}{
		{"before 4.0", RabbitMQ313, false, sent, "q expired 8, odd"},
		{"from 4.0 on", RabbitMQ40, false, sent, "q expired 1"},
		{"our own from 4.0 on", RabbitMQ40, true, sent, "q expired 8, odd"},
		{"no list", RabbitMQ310, false, "text", "q expired 1"},
		{"count is no number", RabbitMQ310, false, wire.Array{wire.Table{{Key: "queue", Value: "q"}, {Key: "reason", Value: "expired"}, {Key: "count", Value: "x"}}}, "q expired 1"},
	} {
		headers := table("x-death", c.value)
		if _, deaths := addDeath(c.compat, headers, c.ours, diedIn("q", queue.Expired)); deathsOf(deaths) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, deathsOf(deaths), c.want)
		}
		if v, _ := headers.Get("x-death"); erlang.Term(v) != erlang.Term(c.value) {
			t.Errorf("%s: the headers of the message that died were changed", c.name)
		}
	}
}

func TestIsCycle(t *testing.T) {
	for _, c := range []struct {
		name   string
		deaths []death // the oldest first
		target string
		want   bool
	}{
		{"no deaths", nil, "a", false},
		{"never there", []death{diedIn("a", queue.Expired)}, "b", false},
		{"expired there", []death{diedIn("a", queue.Expired)}, "a", true},
		{"expired there and elsewhere", []death{diedIn("a", queue.Expired), diedIn("b", queue.MaxLength)}, "a", true},
		{"rejected there", []death{diedIn("a", queue.Rejected)}, "a", false},
		{"rejected since", []death{diedIn("a", queue.Expired), diedIn("b", queue.Rejected)}, "a", false},
		{"rejected before", []death{diedIn("b", queue.Rejected), diedIn("a", queue.Expired)}, "a", true},
		{"rejected between", []death{diedIn("a", queue.Expired), diedIn("b", queue.Rejected), diedIn("c", queue.Expired)}, "c", true},
	} {
		var headers wire.Table
		var deaths wire.Array
		for _, d := range c.deaths {
			headers, deaths = addDeath(RabbitMQ310, headers, true, d)
		}
		if got := isCycle(deaths, c.target); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
	if isCycle(wire.Array{"odd", nil}, "a") {
		t.Error("entries that are no tables make a cycle")
	}
}

// TestFlags: clients neither see nor set the broker's flags in properties, nor see BCC.
func TestFlags(t *testing.T) {
	plain := wire.Properties{ClusterID: "c", ContentType: "t", Headers: table("a", "b")}.Append(nil)
	blind := wire.Properties{ClusterID: "c", ContentType: "t", Headers: table("BCC", wire.Array{"k"}, "a", "b")}.Append(nil)
	for _, c := range []struct {
		name       string
		properties []byte
		flags      byte
		ours       bool
	}{
		{"none", plain, 0, false},
		{"deaths", plain, DeathFlag, true},
		{"blind", blind, BlindFlag, false},
		{"both", blind, BlindFlag | DeathFlag, true},
	} {
		marked := SetFlag(bytes.Clone(c.properties), c.flags)
		before := bytes.Clone(marked)
		if got := hasOurDeaths(marked); got != c.ours {
			t.Errorf("%s: deaths of ours: got %t, want %t", c.name, got, c.ours)
		}
		if got := WithoutFlags(marked); !bytes.Equal(got, plain) {
			t.Errorf("%s: got %x, want %x", c.name, got, plain)
		}
		if !bytes.Equal(marked, before) {
			t.Errorf("%s: looking at a message has changed it", c.name)
		}
		if p, err := wire.ParseProperties(marked); err != nil || p.ClusterID != "c" || p.ContentType != "t" {
			t.Errorf("%s: read: got %+v, %v, want those without flags", c.name, p, err)
		}
	}
}

func TestListed(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{{nil, "[]"}, {"text", "[]"}, {wire.Array{"a", int32(1), "b"}, "[a b]"}} {
		if got := fmt.Sprint(KeyList(table("CC", c.value), "CC")); got != c.want {
			t.Errorf("%v: got %s, want %s", c.value, got, c.want)
		}
	}
	if got := KeyList(nil, "CC"); got != nil {
		t.Errorf("no headers: got %q, want none", got)
	}
}
