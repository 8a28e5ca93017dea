package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/event/view"
)

// filters are the parameters of each list beside the common ones.
var filters = map[view.List][]string{
	view.Deliveries: {"state", "provider", "alert", "object", "event"},
	view.Events:     {"object"},
	view.Webhooks:   {"receiver"},
}

// common are the parameters of all lists, watched the parameters that cannot be used with watch.
var (
	common  = []string{"since", "until", "limit", "cursor", "watch"}
	watched = []string{"until", "limit", "cursor", "event"}
)

// maxCursor bounds a cursor, in bytes.
const maxCursor = 512

// Parameters returns the parameters of a request's address. The error, for one that cannot be decoded, is an *Error: without its filter a
// list would show more than it was asked for.
func Parameters(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the parameters cannot be decoded: between two is a &, and a % in one is written %25")
	}
	return values, nil
}

// ParseQuery parses the parameters of a request for a list. A time is as in RFC 3339, or an age as a Go duration or in days ("7d").
// The error is an *Error that names the wrong parameter.
func ParseQuery(l view.List, values url.Values) (view.Query, error) {
	known := slices.Concat(filters[l], common)
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			return view.Query{}, invalid("there is no such parameter; this list takes " + strings.Join(known, ", "))
		case len(given) > 1:
			return view.Query{}, invalid(name + " is given more than once")
		}
	}
	q := view.Query{
		State: view.State(values.Get("state")), Provider: values.Get("provider"), Alert: values.Get("alert"), Receiver: values.Get("receiver"),
		Object: values.Get("object"), Event: values.Get("event"), Cursor: values.Get("cursor"),
	}
	if err := validQuery(q); err != nil {
		return view.Query{}, err
	}
	return q, bounds(&q, values)
}

func validQuery(q view.Query) error {
	if q.State != "" && !slices.Contains([]view.State{view.StatePending, view.StateSent, view.StateDead}, q.State) {
		return invalid("state is pending, sent or dead")
	}
	for _, name := range []string{q.Provider, q.Alert, q.Receiver} {
		if name != "" && !isName(name) {
			return invalid("provider, alert and receiver are names of objects")
		}
	}
	if kind, name, ok := strings.Cut(q.Object, "/"); q.Object != "" && (!ok || kind == "" || name == "" || len(q.Object) > 2*maxName) {
		return invalid("object is a kind and a name, such as Kustomization/app")
	}
	if q.Event != "" && !isID(q.Event) {
		return invalid("event is the ID of an event")
	}
	if len(q.Cursor) > maxCursor {
		return errCursor
	}
	return nil
}

// bounds parses times and numbers.
func bounds(q *view.Query, values url.Values) error {
	var err error
	if q.Since, err = timeOf("since", values.Get("since")); err != nil {
		return err
	}
	if q.Until, err = timeOf("until", values.Get("until")); err != nil {
		return err
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return invalid("since is not before until")
	}
	if limit := values.Get("limit"); limit != "" {
		if q.Limit, err = strconv.Atoi(limit); err != nil || q.Limit < 1 || q.Limit > view.MaxLimit {
			return invalid("limit is a number from 1 to " + strconv.Itoa(view.MaxLimit))
		}
	}
	switch watch := values.Get("watch"); {
	case watch == "" || watch == "0" || watch == "false":
	case watch != "1" && watch != "true":
		return invalid("watch is 1 or 0")
	default:
		for _, name := range watched {
			if values.Has(name) {
				return invalid(name + " cannot be used with watch")
			}
		}
	}
	return nil
}

// isWatch reports whether valid parameters ask for a watch.
func isWatch(values url.Values) bool {
	return values.Get("watch") == "1" || values.Get("watch") == "true"
}

// timeOf parses a time, or an age before now.
func timeOf(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := view.ParseTime(text, time.Now())
	if err != nil {
		return time.Time{}, invalid(name + " is a time as in RFC 3339, or how long ago it was, such as 90s, 1h30m or 7d; a + in it is written %2B")
	}
	return kept(at), nil
}

// firstTime and lastTime bound the times of a query: nothing is kept from before or after them. A time far beyond them has no form
// in nanoseconds, and none in JSON beyond the year 9999.
var firstTime, lastTime = time.Unix(0, 0).UTC(), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// kept returns the time between firstTime and lastTime that is nearest to at.
func kept(at time.Time) time.Time {
	switch {
	case at.Before(firstTime):
		return firstTime
	case at.After(lastTime):
		return lastTime
	}
	return at
}
