package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"
)

var everyType = Table{
	{"bool", true}, {"int8", int8(-2)}, {"uint8", uint8(254)}, {"int16", int16(-2)}, {"uint16", uint16(65534)},
	{"int32", int32(-2)}, {"uint32", uint32(math.MaxUint32)}, {"int64", int64(math.MinInt64)}, {"uint64", uint64(math.MaxUint64)},
	{"float32", float32(1.5)}, {"float64", math.SmallestNonzeroFloat64}, {"decimal", Decimal{255, math.MaxUint32}},
	{"string", "text"}, {"bytes", []byte{0, 255}}, {"timestamp", Timestamp(1 << 63)},
	{"table", Table{{"inner", Table(nil)}, {"", "no key"}}}, {"array", Array{"a", nil, Array{int64(1)}, Table{{"k", false}}}},
	{"void", nil}, {"bool", "a second time"},
}

// The bytes are those of RabbitMQ, except for L, which it writes as l.
func TestFieldTypesOnTheWire(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{true, "7401"},
		{false, "7400"},
		{int8(-2), "62fe"},
		{uint8(254), "42fe"},
		{int16(-2), "73fffe"},
		{uint16(65534), "75fffe"},
		{int32(-2), "49fffffffe"},
		{uint32(4294967294), "69fffffffe"},
		{int64(-2), "6cfffffffffffffffe"},
		{uint64(math.MaxUint64 - 1), "4cfffffffffffffffe"},
		{float32(1.5), "663fc00000"},
		{-0.25, "64bfd0000000000000"},
		{Decimal{2, 314}, "44020000013a"},
		{"text", "530000000474657874"},
		{[]byte{1, 2}, "78000000020102"},
		{Timestamp(1700000000), "54000000006553f100"},
		{Table{{"n", nil}}, "4600000003016e56"},
		{Array{"a", int64(1)}, "410000000f5300000001616c0000000000000001"},
		{nil, "56"},
	} {
		table := Table{{"k", test.value}}
		raw := AppendTable(nil, table)
		if got, want := hex.EncodeToString(raw[4:]), "016b"+test.want; got != want {
			t.Errorf("%T: got %s, want %s", test.value, got, want)
		}
		got, err := ParseTable(raw)
		if err != nil || !reflect.DeepEqual(got, table) {
			t.Errorf("%T: got %#v, %v; want %#v", test.value, got, err, table)
		}
	}
}

func TestTableRoundTrip(t *testing.T) {
	raw := AppendTable([]byte("before"), everyType)
	if err := everyType.Check(); err != nil {
		t.Errorf("check: got %v, want nil", err)
	}
	got, err := ParseTable(raw[len("before"):])
	if err != nil || !reflect.DeepEqual(got, everyType) {
		t.Errorf("got %#v, %v; want %#v", got, err, everyType)
	}
	for n := range len(raw) - len("before") {
		if _, err := ParseTable(raw[len("before"):][:n]); err == nil {
			t.Errorf("cut to %d bytes: got no error", n)
		}
	}
}

func TestMalformedTables(t *testing.T) {
	for _, test := range []struct {
		name, raw, want string
	}{
		{"empty", "", "0 bytes are left where 4 are announced"},
		{"bytes behind", "\x00\x00\x00\x00x", "1 bytes follow the table"},
		{"length past the end", "\x7f\xff\xff\xff", "0 bytes are left where 2147483647 are announced"},
		{"unknown type", "\x00\x00\x00\x02\x00z", "a table has a field of unknown type 122"},
		{"no type", "\x00\x00\x00\x01\x00", "0 bytes are left where 1 are announced"},
		{"string past the table's end", "\x00\x00\x00\x06\x00S\x00\x00\x00\x01", "0 bytes are left where 1 are announced"},
		{"inner table past its end", "\x00\x00\x00\x07\x00F\x00\x00\x00\x09\x00", "1 bytes are left where 9 are announced"},
		{"NaN", "\x00\x00\x00\x0a\x00d\x7f\xf8\x00\x00\x00\x00\x00\x00", "a table has a float that is not a finite number"},
		{"infinity", "\x00\x00\x00\x06\x00f\x7f\x80\x00\x00", "a table has a float that is not a finite number"},
	} {
		t.Run(test.name, func(t *testing.T) {
			table, err := ParseTable([]byte(test.raw))
			if table != nil {
				t.Errorf("table: got %v, want none", table)
			}
			wantFault(t, err, FrameError{Code: SyntaxError, Text: test.want})
		})
	}
}

func TestTableLimits(t *testing.T) {
	var deep Table
	for range MaxTableDepth - 1 {
		deep = Table{{"t", deep}}
	}
	wide := make(Table, MaxTableEntries)
	for _, test := range []struct {
		name    string
		fits    Table
		exceeds Table
	}{
		{"depth", deep, Table{{"t", deep}}},
		{"depth of arrays", deep[0].Value.(Table), Table{{"t", Array{deep[0].Value}}}},
		{"entries", wide, append(wide, Field{})},
		{"entries of arrays", Table{{"a", make(Array, MaxTableEntries-1)}}, Table{{"a", make(Array, MaxTableEntries)}}},
		{"a table that contains itself", nil, cyclic()},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.fits.Check(); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if _, err := ParseTable(AppendTable(nil, test.fits)); err != nil {
				t.Errorf("parse: got %v, want nil", err)
			}
			if err := test.exceeds.Check(); err == nil {
				t.Error("got nil, want an error")
			}
			if got := AppendTable(nil, test.exceeds); len(got) > 0 {
				t.Errorf("append: got %d bytes, want none", len(got))
			}
		})
	}
}

func cyclic() Table {
	t := Table{{"self", nil}}
	t[0].Value = t
	return t
}

func TestPeersTableLimits(t *testing.T) {
	nest := func(depth int, tag string) []byte {
		var raw []byte
		for range depth {
			raw = append(binary.BigEndian.AppendUint32([]byte(tag), uint32(len(raw))), raw...)
		}
		return raw[len(tag):]
	}
	flat := func(entries int, entry string) []byte {
		body := strings.Repeat(entry, entries)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	inArray := func(items int) []byte {
		a := append([]byte("\x00A"), flat(items, "V")...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(a))), a...)
	}
	for _, test := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"deepest", nest(MaxTableDepth, "\x00F"), ""},
		{"too deep", nest(MaxTableDepth+1, "\x00F"), "tables are nested more than 32 deep"},
		{"far too deep", nest(10_000, "\x00F"), "tables are nested more than 32 deep"},
		{"most fields", flat(MaxTableEntries, "\x00V"), ""},
		{"too many fields", flat(MaxTableEntries+1, "\x00V"), "a table has more than 4096 entries"},
		{"most items", inArray(MaxTableEntries - 1), ""},
		{"too many items", inArray(MaxTableEntries), "a table has more than 4096 entries"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseTable(test.raw)
			headers := append([]byte{byte(HasHeaders >> 8), 0}, test.raw...)
			_, headerErr := ParseHeader(headerPayload(headers, 0))
			if test.want == "" {
				if err != nil || headerErr != nil {
					t.Errorf("got %v and %v, want nil", err, headerErr)
				}
				return
			}
			wantFault(t, err, FrameError{Code: SyntaxError, Text: test.want})
			wantFault(t, headerErr, FrameError{Code: SyntaxError, Text: test.want})
		})
	}
}

func TestTableCheck(t *testing.T) {
	for _, test := range []struct {
		table Table
		want  string
	}{
		{Table{{"k", 1}}, "write table: a value of type int has no type on the wire"},
		{Table{{"k", Array{map[string]any{}}}}, "write table: a value of type map[string]interface {} has no type on the wire"},
		{Table{{strings.Repeat("k", 256), nil}}, "write table: a short string has 256 bytes, at most 255 fit"},
		{Table{{"k", math.NaN()}}, "write table: a table has a float that is not a finite number"},
		{Table{{"k", float32(math.Inf(1))}}, "write table: a table has a float that is not a finite number"},
	} {
		if err := test.table.Check(); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
		if got := AppendTable([]byte("before"), test.table); string(got) != "before" {
			t.Errorf("got %q, want nothing added", got)
		}
	}
}

func TestTableFields(t *testing.T) {
	table := Table{{"a", int32(1)}, {"b", "x"}, {"a", int32(2)}}
	original := append(Table(nil), table...)
	if got, ok := table.Get("a"); got != int32(1) || !ok {
		t.Errorf("get a: got %v, %v; want the first, 1", got, ok)
	}
	if got, ok := table.Get("c"); got != nil || ok {
		t.Errorf("get c: got %v, %v; want none", got, ok)
	}
	for _, test := range []struct {
		name      string
		got, want Table
	}{
		{"with a", table.With("a", true), Table{{"a", true}, {"b", "x"}}},
		{"with c", table.With("c", nil), Table{{"a", int32(1)}, {"b", "x"}, {"a", int32(2)}, {"c", nil}}},
		{"without a", table.Without("a"), Table{{"b", "x"}}},
		{"without c", table.Without("c"), table},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
	if !reflect.DeepEqual(table, original) {
		t.Errorf("table was changed: got %v, want %v", table, original)
	}
}

func TestTableEqual(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b Table
		want bool
	}{
		{"nothing", nil, Table{}, true},
		{"every type", everyType, append(Table(nil), everyType...), true},
		{"other order", Table{{"a", int32(1)}, {"b", nil}}, Table{{"b", nil}, {"a", int32(1)}}, true},
		{"other order of one key", Table{{"a", int32(1)}, {"a", nil}}, Table{{"a", nil}, {"a", int32(1)}}, false},
		{"other type", Table{{"a", int32(1)}}, Table{{"a", int64(1)}}, false},
		{"other value", Table{{"a", "x"}}, Table{{"a", "y"}}, false},
		{"other key", Table{{"a", nil}}, Table{{"b", nil}}, false},
		{"more", Table{{"a", nil}}, Table{{"a", nil}, {"b", nil}}, false},
		{"bytes and text", Table{{"a", []byte("x")}}, Table{{"a", "x"}}, false},
		{"text and bytes", Table{{"a", "x"}}, Table{{"a", []byte("x")}}, false},
		{"within", Table{{"a", Array{Table{{"x", []byte{1}}}}}}, Table{{"a", Array{Table{{"x", []byte{2}}}}}}, false},
	} {
		if got := test.a.Equal(test.b); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestInteger(t *testing.T) {
	for _, test := range []struct {
		value any
		want  int64
		ok    bool
	}{
		{int8(-1), -1, true}, {uint8(255), 255, true}, {int16(-1), -1, true}, {uint16(65535), 65535, true},
		{int32(-1), -1, true}, {uint32(math.MaxUint32), math.MaxUint32, true}, {int64(-1), -1, true},
		{uint64(math.MaxUint64), -1, true}, {"1", 0, false}, {1.0, 0, false}, {nil, 0, false}, {Timestamp(1), 0, false},
	} {
		if got, ok := Integer(test.value); got != test.want || ok != test.ok {
			t.Errorf("%T: got %d, %v; want %d, %v", test.value, got, ok, test.want, test.ok)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add(AppendTable(nil, everyType))
	f.Add(AppendTable(nil, nil))
	f.Add([]byte("\x00\x00\x00\x0c\x01aF\x00\x00\x00\x05\x00A\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		table, err := ParseTable(raw)
		if err != nil {
			return
		}
		if got := entries(table, 1); got > MaxTableEntries {
			t.Fatalf("got %d entries, want at most %d", got, MaxTableEntries)
		}
		if err := table.Check(); err != nil {
			t.Fatalf("%v was read but cannot be written: %v", table, err)
		}
		again := AppendTable(nil, table)
		if len(again) != len(raw) {
			t.Fatalf("got %d bytes, want the %d that were read", len(again), len(raw))
		}
		got, err := ParseTable(again)
		if err != nil || !reflect.DeepEqual(got, table) || !got.Equal(table) {
			t.Fatalf("got %v, %v; want %v", got, err, table)
		}
		if !bytes.Equal(AppendTable(nil, got), again) {
			t.Fatalf("%v is not written twice in the same way", table)
		}
	})
}

// entries counts fields and items. For a table that is nested too deep, it returns far more than the limit.
func entries(value any, depth int) int {
	if depth > MaxTableDepth+1 {
		return math.MaxInt32
	}
	n := 0
	switch v := value.(type) {
	case Table:
		for _, f := range v {
			n += 1 + entries(f.Value, depth+1)
		}
	case Array:
		for _, item := range v {
			n += 1 + entries(item, depth+1)
		}
	}
	return n
}
