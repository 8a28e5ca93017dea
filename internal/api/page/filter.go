package page

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/event/view"
)

// errFilter says that the address's query is not a filter.
var errFilter = errors.New("the filter is not valid")

// maxField bounds a field of a filter: a kind, a slash and a name.
const maxField = 400

// maxCursor bounds a cursor.
const maxCursor = 1024

// filter is the query of an address: what a list is narrowed to, as it was written.
type filter struct {
	State, Provider, Alert, Receiver, Object, Since, Cursor string
}

// ages are what the form offers for Since.
var ages = []option{
	{"", "Any time"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "24 hours"}, {"168h", "7 days"},
}

// states are what the form offers for State.
var states = []option{{"", "Any state"}, {"pending", "Pending"}, {"sent", "Sent"}, {"dead", "Dead"}}

// option is one of a choice.
type option struct{ Value, Label string }

// Ages are what the form offers for Since, with the filter's own value.
func (f filter) Ages() []option {
	if slices.ContainsFunc(ages, func(o option) bool { return o.Value == f.Since }) {
		return ages
	}
	return append(slices.Clone(ages), option{f.Since, f.Since})
}

// States are what the form offers for State.
func (filter) States() []option { return states }

// parseFilter reads the fields that a list has.
func parseFilter(values url.Values, fields ...string) (filter, error) {
	var f filter
	for name, dst := range f.fields() {
		if name != "cursor" && !slices.Contains(fields, name) {
			continue
		}
		*dst = strings.TrimSpace(values.Get(name))
		if most := f.most(name); len(*dst) > most {
			return filter{}, fmt.Errorf("%w: %s is longer than %d bytes", errFilter, name, most)
		}
	}
	if !slices.ContainsFunc(states, func(o option) bool { return o.Value == f.State }) {
		return filter{}, fmt.Errorf("%w: state is pending, sent or dead", errFilter)
	}
	if _, err := f.since(time.Now()); err != nil {
		return filter{}, err
	}
	return f, nil
}

func (filter) most(field string) int {
	if field == "cursor" {
		return maxCursor
	}
	return maxField
}

func (f *filter) fields() map[string]*string {
	return map[string]*string{
		"state": &f.State, "provider": &f.Provider, "alert": &f.Alert, "receiver": &f.Receiver, "object": &f.Object, "since": &f.Since,
		"cursor": &f.Cursor,
	}
}

// since is the time that Since names, a duration before now or a time of RFC 3339.
func (f filter) since(now time.Time) (time.Time, error) {
	if f.Since == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(f.Since); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, f.Since)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: since is a duration such as 1h, or a time such as 2006-01-02T15:04:05Z", errFilter)
	}
	return t, nil
}

// query is the filter for the service.
func (f filter) query(now time.Time) view.Query {
	since, _ := f.since(now) // parseFilter has seen that it is one
	return view.Query{
		State: view.State(f.State), Provider: f.Provider, Alert: f.Alert, Receiver: f.Receiver, Object: f.Object, Since: since,
		Cursor: f.Cursor,
	}
}

// Active says that the filter narrows the list.
func (f filter) Active() bool {
	f.Cursor = ""
	return f != filter{}
}

// values is the filter as the query of an address.
func (f filter) values() url.Values {
	v := url.Values{}
	for name, src := range f.fields() {
		if *src != "" {
			v.Set(name, *src)
		}
	}
	return v
}

// link is an address with a query.
func link(path string, v url.Values) string {
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// watch is the address of the API's stream of what is new in the list.
func (f filter) watch(namespace, list string) string {
	if f.Cursor != "" {
		return "" // an older page has nothing new
	}
	v := f.values()
	v.Del("since") // what is new is younger
	v.Set("watch", strconv.Itoa(1))
	return link("/v1/namespaces/"+url.PathEscape(namespace)+"/"+list, v)
}

// in is the address of a page of a namespace.
func in(namespace string, parts ...string) string {
	var b strings.Builder
	b.WriteString("/ns/" + url.PathEscape(namespace))
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}
