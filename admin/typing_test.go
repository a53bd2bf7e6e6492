package admin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// The types that programs use are found long before rehop gives up, however many arguments there are.
func TestTypingsLikelyFirst(t *testing.T) {
	t.Parallel()
	type args = map[string]any
	n := func(s string) json.Number { return json.Number(s) }
	many, manyTyped := args{"x-match": "any"}, args{"x-match": "any"}
	for i := range 30 {
		many[fmt.Sprint(i)], manyTyped[fmt.Sprint(i)] = n(fmt.Sprint(i*10)), int32(i*10)
	}
	for name, c := range map[string]struct {
		shown, want args
		most        int
	}{
		"all int64":           {args{"a": n("1"), "b": n("2"), "s": "x"}, args{"a": int64(1), "b": int64(2), "s": "x"}, 1},
		"all int32":           {args{"a": n("1"), "b": n("2"), "c": n("3"), "d": n("4"), "x-match": "all"}, args{"a": int32(1), "b": int32(2), "c": int32(3), "d": int32(4), "x-match": "all"}, 2},
		"30 int32":            {many, manyTyped, 2},
		"int32 and texts":     {args{"a": "x", "b": "y", "l": n("1"), "m": n("2"), "n": n("3")}, args{"a": "x", "b": "y", "l": int32(1), "m": int32(2), "n": int32(3)}, 2},
		"all float32":         {args{"a": n("1.5"), "b": n("2.5"), "c": n("3.5"), "d": n("4.5")}, args{"a": float32(1.5), "b": float32(2.5), "c": float32(3.5), "d": float32(4.5)}, 2},
		"all int32 but one":   {args{"a": n("1"), "b": n("2"), "c": n("3000000000"), "d": n("4")}, args{"a": int32(1), "b": int32(2), "c": int64(3000000000), "d": int32(4)}, 2},
		"int32 and float32":   {args{"a": n("1"), "b": n("2"), "c": n("1.5")}, args{"a": int32(1), "b": int32(2), "c": float32(1.5)}, maxTypings / 10},
		"bytes":               {args{"a": "x", "b": "y", "x-match": "all"}, args{"a": []byte("x"), "b": []byte("y"), "x-match": "all"}, 2},
		"present":             {args{"a": "undefined", "b": n("1")}, args{"a": nil, "b": int32(1)}, 2},
		"the word undefined":  {args{"a": "undefined", "b": n("1")}, args{"a": "undefined", "b": int32(1)}, maxTypings / 10},
		"in lists and tables": {args{"l": []any{n("1"), args{"m": n("2")}}, "n": n("3")}, args{"l": []any{int32(1), args{"m": int32(2)}}, "n": int32(3)}, 2},
		"mixed":               {args{"a": n("1"), "b": n("2"), "c": n("3"), "d": n("4"), "e": "x"}, args{"a": int32(1), "b": int64(2), "c": int32(3), "d": int64(4), "e": "x"}, maxTypings / 5},
		"nothing to choose":   {args{"a": true}, args{"a": true}, 1},
	} {
		tries := 0
		found := false
		for v := range typings(c.shown) {
			if tries++; reflect.DeepEqual(v, c.want) {
				found = true
				break
			}
			if tries > maxTypings {
				break
			}
		}
		if !found || tries > c.most {
			t.Errorf("%s: found %v after %d tries, want at most %d", name, found, tries, c.most)
		}
	}
}

// Every combination comes, and only once: the broker would not show one that is there already as another.
func TestTypingsComeOnce(t *testing.T) {
	t.Parallel()
	shown := map[string]any{"a": json.Number("1"), "b": json.Number("-2"), "c": "undefined", "d": []any{"x"}, "x-match": "all"}
	seen := make(map[string]bool)
	for v := range typings(shown) {
		args := v.(map[string]any)
		id := fmt.Sprintf("%T, %T, %T, %T", args["a"], args["b"], args["c"], args["d"].([]any)[0])
		if seen[id] {
			t.Errorf("%s comes twice", id)
		}
		seen[id] = true
	}
	if want := len(numbers("1")) * len(numbers("-2")) * 3 * 2; len(seen) != want {
		t.Errorf("got %d combinations, want %d", len(seen), want)
	}
}
