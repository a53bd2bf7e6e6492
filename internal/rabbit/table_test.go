package rabbit

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestToTable(t *testing.T) {
	if got := ToTable(nil); got != nil {
		t.Errorf("nil: got %v, want nil", got)
	}
	moment := time.Unix(5, 0)
	in := map[string]any{
		"s": "x", "i": 5_000_000_000, "u": uint(7), "u64": uint64(8), "big": uint64(math.MaxUint64), "t": moment, "b": []byte("b"),
		"list": []any{1, map[string]any{"k": []string{"a"}}}, "map": map[string]any{"m": map[string]any{"n": -1}}, "nil": nil,
	}
	before := fmt.Sprintf("%#v", in)
	want := amqp.Table{
		"s": "x", "i": int64(5_000_000_000), "u": int64(7), "u64": int64(8), "big": uint64(math.MaxUint64), "t": moment, "b": []byte("b"),
		"list": []any{int64(1), amqp.Table{"k": []any{"a"}}}, "map": amqp.Table{"m": amqp.Table{"n": int64(-1)}}, "nil": nil,
	}
	if got := ToTable(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	if after := fmt.Sprintf("%#v", in); after != before {
		t.Errorf("the caller's map was changed:\n%s\n%s", before, after)
	}
	if _, err := HeaderSize(ToTable(in)); err == nil {
		t.Error("an integer of 64 bits without sign: got nil, want an error")
	}
}

func TestFromTable(t *testing.T) {
	in := amqp.Table{
		"s": "x", "t": amqp.Table{"u": amqp.Table{"d": amqp.Decimal{Scale: 2, Value: -314}}},
		"l": []any{amqp.Table{}, []any{amqp.Table{"k": "v"}}, amqp.Decimal{Scale: 3, Value: 5}}, "d": amqp.Decimal{Value: 7}, "n": nil,
	}
	before := fmt.Sprintf("%#v", in)
	want := map[string]any{
		"s": "x", "t": map[string]any{"u": map[string]any{"d": "-3.14"}},
		"l": []any{map[string]any{}, []any{map[string]any{"k": "v"}}, "0.005"}, "d": "7", "n": nil,
	}
	if got := FromTable(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	if after := fmt.Sprintf("%#v", in); after != before {
		t.Errorf("the delivery's own table was changed:\n%s\n%s", before, after)
	}
	if got := FromTable(nil); len(got) != 0 {
		t.Errorf("nil: got %v", got)
	}
}

func TestDecimal(t *testing.T) {
	for _, test := range []struct {
		d    amqp.Decimal
		want string
	}{
		{amqp.Decimal{}, "0"}, {amqp.Decimal{Scale: 1}, "0.0"}, {amqp.Decimal{Scale: 2, Value: 5}, "0.05"}, {amqp.Decimal{Scale: 2, Value: 314}, "3.14"},
		{amqp.Decimal{Value: -7}, "-7"}, {amqp.Decimal{Scale: 1, Value: -7}, "-0.7"}, {amqp.Decimal{Scale: 2, Value: math.MinInt32}, "-21474836.48"},
	} {
		if got := decimal(test.d); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.d, got, test.want)
		}
	}
}
