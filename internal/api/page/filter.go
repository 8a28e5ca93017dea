package page

import (
	"maps"
	"net/url"
	"slices"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// option is one value of a choice.
type option struct{ value, label string }

// states and ages are the choices for State and for Since.
var (
	states = []option{{"", "Any state"}, {"pending", "Pending"}, {"sent", "Sent"}, {"dead", "Dead"}}
	ages   = []option{
		{"", "Any time"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "24 hours"}, {"7d", "7 days"},
	}
)

// agesWith returns the choices for Since, including a filter's own value.
func agesWith(since string) []option {
	if slices.ContainsFunc(ages, func(o option) bool { return o.value == since }) {
		return ages
	}
	return append(slices.Clone(ages), option{since, since})
}

// parseFilter parses the query of a list's address, which has the same parameters as the list in the API. It also returns the filter as it was
// written, without the cursor.
func parseFilter(l view.List, values url.Values) (url.Values, view.Query, error) {
	q, err := api.ParseQuery(l, values)
	if err != nil {
		return nil, view.Query{}, err
	}
	f := maps.Clone(values)
	maps.DeleteFunc(f, func(name string, v []string) bool {
		return v[0] == "" || name == "cursor" || name == "limit" || name == "watch"
	})
	return f, q, nil
}

// watchOf returns the address of the API's stream of new items of a filtered list. It covers every state, time and event, so that the page
// also notices an item that leaves a state.
func watchOf(namespace string, l view.List, f url.Values) address {
	v := url.Values{"watch": {"1"}}
	for _, name := range []string{"provider", "alert", "receiver", "object"} {
		if value := f.Get(name); value != "" {
			v.Set(name, value)
		}
	}
	return listIn(namespace, string(l)).with(v)
}
