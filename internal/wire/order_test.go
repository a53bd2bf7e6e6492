package wire

import (
	"reflect"
	"testing"
)

func TestOrderTable(t *testing.T) {
	for _, c := range []struct {
		name       string
		have, want Table
		unique     bool
	}{
		{"empty", nil, nil, true},
		{"in order", Table{{"a", int32(1)}, {"b", "text"}}, Table{{"a", int32(1)}, {"b", "text"}}, true},
		{"out of order", Table{{"b", nil}, {"", true}, {"a", Table{{"z", int8(1)}, {"y", int8(2)}}}}, Table{{"", true}, {"a", Table{{"z", int8(1)}, {"y", int8(2)}}}, {"b", nil}}, true},
		{"twice", Table{{"b", "first"}, {"a", int32(1)}, {"b", "second"}}, Table{{"a", int32(1)}, {"b", "first"}, {"b", "second"}}, false},
		{"unsigned", Table{{"a", uint64(5)}, {"b", Array{uint64(6), Table{{"in", uint64(7)}}}}}, Table{{"a", int64(5)}, {"b", Array{int64(6), Table{{"in", int64(7)}}}}}, true},
	} {
		raw := (Properties{Headers: c.have, Has: HasHeaders}).Append(nil)
		brief, err := ScanProperties(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := OrderTable(brief.Headers); got != c.unique {
			t.Errorf("%s: unique: got %t, want %t", c.name, got, c.unique)
		}
		got, err := ParseProperties(raw)
		if err != nil || len(got.Headers)+len(c.want) > 0 && !reflect.DeepEqual(got.Headers, c.want) {
			t.Errorf("%s: got %v (%v), want %v", c.name, got.Headers, err, c.want)
		}
	}
}

func TestUnique(t *testing.T) {
	got := Table{{"a", "first"}, {"b", "x"}, {"a", "second"}}.Unique()
	if want := (Table{{"a", "first"}, {"b", "x"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
