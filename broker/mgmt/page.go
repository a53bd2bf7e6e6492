package mgmt

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a client may request.
const (
	pageSize    = 100
	maxPageSize = 500
	maxName     = 256 // bytes of a pattern for names
	maxColumns  = 64
)

// shape applies the parameters of the query: sorting, pages, columns.
func (c *call) shape(answer any) (any, error) {
	query := c.r.URL.Query()
	columns, err := parseColumns(query.Get("columns"))
	if err != nil {
		return nil, err
	}
	switch a := answer.(type) {
	case object:
		return columns.of(a), nil
	case list:
		if a == nil {
			a = list{}
		}
		if by := query.Get("sort"); by != "" {
			a.sort(strings.Split(by, "."), query.Get("sort_reverse") == "true")
		}
		if !query.Has("page") {
			return columns.ofAll(a), nil
		}
		return a.page(query, columns)
	}
	return answer, nil
}

// columns are the keys that a client wants, such as message_stats.publish; nil: all.
type columns [][]string

func parseColumns(text string) (columns, error) {
	if text == "" {
		return nil, nil
	}
	names := strings.Split(text, ",")
	if len(names) > maxColumns {
		return nil, badRequest(fmt.Sprintf("more than %d columns", maxColumns))
	}
	var all columns
	for _, name := range names {
		all = append(all, strings.Split(name, "."))
	}
	return all, nil
}

func (cs columns) ofAll(l list) list {
	if cs == nil {
		return l
	}
	some := make(list, len(l))
	for i, o := range l {
		some[i] = cs.of(o)
	}
	return some
}

func (cs columns) of(o object) object {
	if cs == nil {
		return o
	}
	some := object{}
	for _, path := range cs {
		value, ok := o[path[0]]
		if !ok {
			continue
		}
		if len(path) == 1 {
			some[path[0]] = value
			continue
		}
		switch inner := value.(type) {
		case object:
			if part := (columns{path[1:]}).of(inner); len(part) > 0 {
				before, _ := some[path[0]].(object)
				some[path[0]] = merged(before, part)
			}
		case list:
			some[path[0]] = (columns{path[1:]}).ofAll(inner)
		}
	}
	return some
}

func merged(a, b object) object {
	both := object{}
	maps.Copy(both, a)
	maps.Copy(both, b)
	return both
}

// at returns a value inside an object.
func (o object) at(path []string) any {
	if len(path) == 1 {
		return o[path[0]]
	}
	inner, _ := o[path[0]].(object)
	if inner == nil {
		return nil
	}
	return inner.at(path[1:])
}

func (l list) sort(path []string, reverse bool) {
	slices.SortStableFunc(l, func(a, b object) int {
		order := compare(a.at(path), b.at(path))
		if reverse {
			return -order
		}
		return order
	})
}

// compare sorts missing values before numbers, and numbers before text.
func compare(a, b any) int {
	rankA, numberA := rank(a)
	rankB, numberB := rank(b)
	return cmp.Or(cmp.Compare(rankA, rankB), cmp.Compare(numberA, numberB), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

func rank(value any) (int, float64) {
	switch v := reflect.ValueOf(value); {
	case value == nil:
		return 0, 0
	case v.CanInt():
		return 1, float64(v.Int())
	case v.CanUint():
		return 1, float64(v.Uint())
	case v.CanFloat():
		return 1, v.Float()
	}
	return 2, 0
}

// page returns one page of a list, with its position in the list.
func (l list) page(query url.Values, cs columns) (any, error) {
	invalid := badRequest("Pagination parameters are invalid")
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		return nil, invalid
	}
	size, shownSize := pageSize, "undefined"
	if text := query.Get("page_size"); text != "" {
		if size, err = strconv.Atoi(text); err != nil {
			return nil, invalid
		}
		shownSize = text
	}
	if page < 1 || size < 1 || size > maxPageSize {
		return nil, &failure{http.StatusBadRequest, "invalid_pagination_parameters",
			fmt.Sprintf("Invalid pagination parameters: page number %d, page size %s", page, shownSize)}
	}
	found, err := l.named(query.Get("name"), query.Get("use_regex") == "true")
	if err != nil {
		return nil, invalid
	}
	pages := (len(found) + size - 1) / size
	if page > max(pages, 1) {
		return nil, &failure{http.StatusBadRequest, "page_out_of_range",
			fmt.Sprintf("Page out of range, page: %d page size: %d, len: %d", page, size, len(found))}
	}
	items := found[(page-1)*size : min(page*size, len(found))]
	return object{"total_count": len(l), "filtered_count": len(found), "item_count": len(items),
		"page": page, "page_size": size, "page_count": pages, "items": cs.ofAll(items)}, nil
}

// named returns the objects whose name contains the text, or matches it. It ignores case.
func (l list) named(text string, regex bool) (list, error) {
	if text == "" {
		return l, nil
	}
	if len(text) > maxName {
		return nil, fmt.Errorf("a pattern of %d bytes", len(text))
	}
	if !regex {
		text = regexp.QuoteMeta(text)
	}
	re, err := regexp.Compile("(?i)" + text)
	if err != nil {
		return nil, err
	}
	found := list{}
	for _, o := range l {
		if name, ok := o["name"].(string); ok && re.MatchString(name) {
			found = append(found, o)
		}
	}
	return found, nil
}
