package exchange

import (
	"fmt"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

func benchmarkMatch(b *testing.B, table *Table[string], key string, message wire.Table, want int) {
	visited := 0
	headers := func() wire.Table { return message }
	visit := func(string) { visited++ }
	b.ReportAllocs()
	for b.Loop() {
		visited = 0
		table.Match(key, headers, visit)
	}
	if visited != want {
		b.Errorf("%q matched %d destinations, want %d", key, visited, want)
	}
}

func BenchmarkDirect(b *testing.B) {
	for _, destinations := range []int{1, 2} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			table := New[string](Direct)
			for i := range 10_000 {
				mustAdd(b, table, fmt.Sprintf("queue-%d", i), fmt.Sprintf("key-%d", i/destinations), nil)
			}
			benchmarkMatch(b, table, "key-77", nil, destinations)
		})
	}
}

func BenchmarkFanout(b *testing.B) {
	table := New[string](Fanout)
	for i := range 10 {
		mustAdd(b, table, fmt.Sprint(i), "", nil)
	}
	benchmarkMatch(b, table, "key", nil, 10)
}

func BenchmarkTopic(b *testing.B) {
	for _, bindings := range []int{1, 1_000, 10_000} {
		b.Run(fmt.Sprintf("bindings=%d", bindings), func(b *testing.B) {
			table := New[string](Topic)
			for i := range bindings {
				middle := []string{fmt.Sprint(i), "*"}[i%2]
				mustAdd(b, table, fmt.Sprintf("queue-%d", i), fmt.Sprintf("orders.%s.eu.item-%d", middle, i), nil)
			}
			benchmarkMatch(b, table, "orders.0.eu.item-0", nil, 1)
		})
	}
	b.Run("hash", func(b *testing.B) {
		table := New[string](Topic)
		mustAdd(b, table, "q", "orders.#", nil)
		mustAdd(b, table, "q", "#.created", nil)
		benchmarkMatch(b, table, "orders.eu.item.created", nil, 1)
	})
}

func BenchmarkTopicHostile(b *testing.B) {
	for _, pattern := range hostilePatterns() {
		b.Run(pattern[:4]+pattern[len(pattern)-4:], func(b *testing.B) {
			table := New[string](Topic)
			mustAdd(b, table, "q", pattern, nil)
			benchmarkMatch(b, table, longKey()[2:]+".b", nil, 1)
		})
	}
}

func BenchmarkHeaders(b *testing.B) {
	table := New[string](Headers)
	mustAdd(b, table, "wait", "", fields("x-match", "all", "level-7", true))
	mustAdd(b, table, "pass", "", fields("x-match", "all", "level-7", false))
	var message wire.Table
	for level := range 28 {
		message = append(message, wire.Field{Key: fmt.Sprintf("level-%d", level), Value: level%2 == 1})
	}
	benchmarkMatch(b, table, "", message, 1)
}
