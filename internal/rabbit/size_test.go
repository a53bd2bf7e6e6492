package rabbit

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// encoder has amqp091-go encode properties, and returns the content header frame's payload.
func encoder(t testing.TB) func(t testing.TB, p *Publishing) []byte {
	headers := make(chan []byte, 1)
	b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, header, _ []byte) {
		headers <- header
		p.ack(channel, tag, 0)
	}}
	link, p, _ := start(t, b)
	t.Cleanup(func() {
		link.Close()
		p.Wait()
	})
	ch, err := link.Channel(within(t, 2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return func(t testing.TB, p *Publishing) []byte {
		if err := ch.PublishWithContext(context.Background(), "", "k", false, false, *p); err != nil {
			t.Fatalf("amqp091-go does not encode what was found to be valid: %v", err)
		}
		select {
		case h := <-headers:
			return h
		case <-time.After(2 * time.Minute):
			t.Fatal("the frame did not arrive")
			return nil
		}
	}
}

func TestHeaderSizeOfEveryType(t *testing.T) {
	encode := encoder(t)
	for name, v := range map[string]any{
		"nil": nil, "bool": true, "int8": int8(1), "uint8": uint8(1), "int16": int16(1), "uint16": uint16(1), "int32": int32(1),
		"uint32": uint32(1), "int64": int64(1), "int": 1, "large int": math.MaxInt64, "uint": uint(1), "uint64": uint64(1),
		"float32": float32(1), "float64": 1.0, "decimal": amqp.Decimal{Scale: 1, Value: 1}, "string": "text", "bytes": []byte("bytes"),
		"time": time.Unix(1, 0), "list": []any{1, "x", []any{nil}}, "strings": []string{"a", "bc"},
		"map": map[string]any{"a": 1, "b": map[string]any{"c": []any{map[string]any{}}}}, "table": amqp.Table{"a": "b"},
	} {
		table := ToTable(map[string]any{"header": v})
		size, err := HeaderSize(table)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		const before = 2 + 2 + 8 + 2 // class, weight, body size, flags
		if got := len(encode(t, &Publishing{Headers: table})) - before; got != size {
			t.Errorf("%s: reckoned %d bytes, amqp091-go makes %d", name, size, got)
		}
	}
}

// FuzzHeaderSize builds a table from the input and compares with what amqp091-go encodes.
func FuzzHeaderSize(f *testing.F) {
	f.Add([]byte("hello, world, this is a table"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte{14, 3, 14, 3, 14, 3, 13, 2, 1, 1, 13, 1, 5, 14, 1, 7})
	encode := encoder(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		table := ToTable(table(&input, 0))
		if len(table) == 0 {
			return // not sent at all
		}
		size, err := HeaderSize(table)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want %v", err, ErrInvalid)
			}
			return
		}
		if size > frameMax-100 {
			return // not sent either
		}
		if got := len(encode(t, &Publishing{Headers: table})) - 14; got != size {
			t.Errorf("%#v: reckoned %d bytes, amqp091-go makes %d", table, size, got)
		}
	})
}

func take(input *[]byte, n int) []byte {
	n = min(n, len(*input))
	out := (*input)[:n]
	*input = (*input)[n:]
	return out
}

func table(input *[]byte, depth int) map[string]any {
	m := make(map[string]any)
	for n := next(input) % 8; n > 0 && len(*input) > 0; n-- {
		m[string(take(input, next(input)%40))] = value(input, depth)
	}
	return m
}

func next(input *[]byte) int {
	if b := take(input, 1); len(b) == 1 {
		return int(b[0])
	}
	return 0
}

func value(input *[]byte, depth int) any {
	n := binary.LittleEndian.Uint64(append(append([]byte(nil), take(input, 8)...), make([]byte, 8)...))
	switch kind := next(input) % 17; {
	case kind == 0:
		return nil
	case kind == 1:
		return n%2 == 0
	case kind == 2:
		return byte(n)
	case kind == 3:
		return int8(n)
	case kind == 4:
		return int16(n)
	case kind == 5:
		return uint16(n)
	case kind == 6:
		return int32(n)
	case kind == 7:
		return uint32(n)
	case kind == 8:
		return int64(n)
	case kind == 9:
		return int(n)
	case kind == 10:
		return float32(n)
	case kind == 11:
		return float64(n)
	case kind == 12:
		return time.Unix(int64(n>>2), 0)
	case kind == 13 && depth < 20:
		var list []any
		for i := n % 5; i > 0 && len(*input) > 0; i-- {
			list = append(list, value(input, depth+1))
		}
		return list
	case kind == 14 && depth < 20:
		return table(input, depth+1)
	case kind == 15:
		return take(input, int(n%100))
	default:
		return string(take(input, int(n%100)))
	}
}

// What passes the check fits into a frame with what the broker may add, and hardly any room is wasted.
func TestCheckFrame(t *testing.T) {
	encode := encoder(t)
	p := &Publishing{ContentType: "a", ContentEncoding: "b", DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "d",
		Expiration: "5", MessageId: "e", Timestamp: time.Unix(1, 0), Type: "f", AppId: "g"}
	empty, err := HeaderSize(Table{"h": ""})
	if err != nil {
		t.Fatal(err)
	}
	p.Headers = Table{"h": strings.Repeat("x", HeaderRoom(p)-growth-empty)}
	if err := check("", "k", p, 0); err != nil {
		t.Fatalf("headers that fill the frame: got %v, want nil", err)
	}
	const most = frameMax - growth
	if frame := len(encode(t, p)) + 8; frame > most { // with the frame's own header and end
		t.Errorf("got a frame of %d bytes, want %d at most", frame, most)
	} else if frame < most-32 {
		t.Errorf("got a frame of %d bytes: %d bytes of room are wasted", frame, most-frame)
	}
	p.Headers = Table{"h": p.Headers["h"].(string) + "x"}
	if err := check("", "k", p, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: got %v, want %v", err, ErrTooLarge)
	}
}
