package page

import (
	"fmt"
	"maps"
	"slices"

	"notifier/internal/event/view"
)

// namespaces is the first page: where the user may look.
func namespaces(v *visit) (*screen, error) {
	names, err := v.user.Namespaces(v.ctx())
	if err != nil {
		return nil, err
	}
	return &screen{template: "namespaces", Title: "Namespaces", Body: names}, nil
}

func toDeliveries(v *visit) (*screen, error) {
	return &screen{redirect: in(v.namespace, "deliveries")}, nil
}

// list is the body of a page with a filter and items.
type list[T any] struct {
	Items  []T
	Filter filter
	// Here is the page's address without a query, Older the next page's and First the first page's, empty where this is it.
	Here, Older, First string
	// Bulk is offered to replay what the filter selects, nil where it is not.
	Bulk *bulk
}

// bulk offers to replay all dead deliveries of a Provider.
type bulk struct {
	Provider string
	Action   string
	Most     int
	Filter   filter
}

// listed makes the page of a list.
func listed[T any](v *visit, name string, f filter, read func(view.Query) (view.Page[T], error)) (*screen, *list[T], error) {
	page, err := read(f.query(v.now))
	if err != nil {
		return nil, nil, err
	}
	l := &list[T]{Items: page.Items, Filter: f, Here: in(v.namespace, name)}
	if page.Next != "" {
		values := f.values()
		values.Set("cursor", page.Next)
		l.Older = link(l.Here, values)
	}
	if f.Cursor != "" {
		values := f.values()
		values.Del("cursor")
		l.First = link(l.Here, values)
	}
	return &screen{template: name, Section: name, Watch: f.watch(v.namespace, name), Body: l}, l, nil
}

func deliveries(v *visit) (*screen, error) {
	f, err := parseFilter(v.URL.Query(), "state", "provider", "alert", "object", "since")
	if err != nil {
		return nil, err
	}
	s, l, err := listed(v, "deliveries", f, func(q view.Query) (view.Page[view.Delivery], error) {
		return v.user.Deliveries(v.ctx(), v.namespace, q)
	})
	if err != nil {
		return nil, err
	}
	s.Title = "Deliveries"
	// A replay knows no object, and reads the filter of the first page anew.
	selects := view.State(f.State) == view.StateDead && f.Provider != "" && f.Object == ""
	if selects && len(l.Items) > 0 && v.user.May(v.ctx(), v.namespace, Replay) {
		l.Bulk = &bulk{Provider: f.Provider, Action: in(v.namespace, "deliveries", "replay"), Most: view.MaxReplay, Filter: f}
	}
	return s, nil
}

func events(v *visit) (*screen, error) {
	f, err := parseFilter(v.URL.Query(), "object", "since")
	if err != nil {
		return nil, err
	}
	s, _, err := listed(v, "events", f, func(q view.Query) (view.Page[view.Event], error) {
		return v.user.Events(v.ctx(), v.namespace, q)
	})
	if err != nil {
		return nil, err
	}
	s.Title = "Events"
	return s, nil
}

func webhooks(v *visit) (*screen, error) {
	f, err := parseFilter(v.URL.Query(), "receiver", "since")
	if err != nil {
		return nil, err
	}
	s, _, err := listed(v, "webhooks", f, func(q view.Query) (view.Page[view.Webhook], error) {
		return v.user.Webhooks(v.ctx(), v.namespace, q)
	})
	if err != nil {
		return nil, err
	}
	s.Title = "Webhooks"
	return s, nil
}

// replayAll replays the dead deliveries of a Provider, and shows the list again with what became of it.
func replayAll(v *visit) (*screen, error) {
	if err := v.ParseForm(); err != nil {
		return nil, fmt.Errorf("%w: %w", errFilter, err)
	}
	f, err := parseFilter(v.PostForm, "provider", "alert", "since")
	if err != nil {
		return nil, err
	}
	if f.Provider == "" {
		return nil, fmt.Errorf("%w: a replay needs a provider", errFilter)
	}
	f.State, f.Cursor = string(view.StateDead), ""
	since, _ := f.since(v.now)
	result, err := v.user.Replay(v.ctx(), v.namespace, view.ReplayRequest{
		Provider: f.Provider, Alert: f.Alert, State: view.StateDead, Since: since,
	})
	if err != nil {
		return nil, err
	}
	v.URL.RawQuery = f.values().Encode()
	s, err := deliveries(v)
	if err != nil {
		return nil, err
	}
	s.Notice = replayed(result)
	return s, nil
}

// mostRefused bounds how many refusals a notice lists.
const mostRefused = 10

// replayed is the notice of a replay's result.
func replayed(r view.ReplayResult) *notice {
	n := &notice{Failed: len(r.Refused) > 0, Text: "Put on their way again: " + count(r.Replayed, "delivery", "deliveries") + "."}
	if r.More {
		n.Text += " There are more: replay once more for the next ones."
	}
	for _, id := range slices.Sorted(maps.Keys(r.Refused)) {
		if len(n.Lines) == mostRefused {
			n.Lines = append(n.Lines, fmt.Sprintf("and %d more", len(r.Refused)-mostRefused))
			break
		}
		n.Lines = append(n.Lines, "Not replayed: "+id+": "+r.Refused[id])
	}
	return n
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
