package page

import (
	"net/url"
	"slices"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// filter is the query of a list's address, with the values as they were written.
type filter struct {
	State, Provider, Alert, Receiver, Object, Event, Since, Until, Cursor string
}

// option is one value of a choice.
type option struct{ value, label string }

// states and ages are the choices for State and for Since.
var (
	states = []option{{"", "Any state"}, {"pending", "Pending"}, {"sent", "Sent"}, {"dead", "Dead"}}
	ages   = []option{
		{"", "Any time"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "24 hours"}, {"7d", "7 days"},
	}
)

// ages returns the choices for Since, including the filter's own value.
func (f filter) ages() []option {
	if slices.ContainsFunc(ages, func(o option) bool { return o.value == f.Since }) {
		return ages
	}
	return append(slices.Clone(ages), option{f.Since, f.Since})
}

// parseFilter parses the query of a list's address. It has the same parameters as the list in the API.
func parseFilter(l view.List, values url.Values) (filter, view.Query, error) {
	q, err := api.ParseQuery(l, values)
	if err != nil {
		return filter{}, view.Query{}, err
	}
	return filter{
		State: string(q.State), Provider: q.Provider, Alert: q.Alert, Receiver: q.Receiver, Object: q.Object, Event: q.Event,
		Since: values.Get("since"), Until: values.Get("until"), Cursor: q.Cursor,
	}, q, nil
}

// active reports whether the filter narrows the list.
func (f filter) active() bool {
	f.Cursor = ""
	return f != filter{}
}

// values returns the filter as the query of an address.
func (f filter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"state": f.State, "provider": f.Provider, "alert": f.Alert, "receiver": f.Receiver, "object": f.Object, "event": f.Event,
		"since": f.Since, "until": f.Until, "cursor": f.Cursor,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// watch returns the address of the API's stream of new items of the list. It covers every state, time and event, so that the page also
// notices an item that leaves a state.
func (f filter) watch(namespace string, l view.List) address {
	if f.Cursor != "" {
		return "" // an older page has nothing new
	}
	f.State, f.Event, f.Since, f.Until = "", "", "", ""
	v := f.values()
	v.Set("watch", "1")
	return listIn(namespace, string(l)).with(v)
}
