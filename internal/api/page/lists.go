package page

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// namespaces is the first page: where the user may look.
func namespaces(v *visit) (*screen, error) {
	found, err := v.Namespaces(v.ctx(), v.user)
	if err != nil {
		return nil, err
	}
	return &screen{template: "namespaces", Title: "Namespaces", Body: found}, nil
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
	// Action is the address to ask it of, Most how many are replayed at a time.
	Action string
	Most   int
	Filter filter
}

// reader is how a list is read.
type reader[T any] func(ctx context.Context, u *api.User, namespace string, q view.Query) (view.Page[T], error)

// listed makes the page of a list from the query of its address.
func listed[T any](v *visit, name view.List, values url.Values, read reader[T]) (*screen, *list[T], error) {
	f, q, err := parseFilter(name, values)
	if err != nil {
		return nil, nil, err
	}
	page, err := read(v.ctx(), v.user, v.namespace, q)
	if err != nil {
		return nil, nil, err
	}
	l := &list[T]{Items: page.Items, Filter: f, Here: in(v.namespace, string(name))}
	first, older := f, f
	first.Cursor, older.Cursor = "", page.Next
	if f.Cursor != "" {
		l.First = link(l.Here, first.values())
	}
	if page.Next != "" {
		l.Older = link(l.Here, older.values())
	}
	return &screen{
		template: string(name), Section: string(name), Title: label(name), Watch: f.watch(v.namespace, name), Body: l,
	}, l, nil
}

func deliveries(v *visit) (*screen, error) { return deliveriesOf(v, v.request.URL.Query()) }

func deliveriesOf(v *visit, values url.Values) (*screen, error) {
	s, l, err := listed(v, view.Deliveries, values, v.Deliveries)
	if err != nil {
		return nil, err
	}
	// A request to replay names no object.
	f := l.Filter
	selects := view.State(f.State) == view.StateDead && f.Provider != "" && f.Object == ""
	if selects && len(l.Items) > 0 && v.may(api.ReplayDeliveries) {
		l.Bulk = &bulk{Action: in(v.namespace, "deliveries", "replay"), Most: view.MaxReplay, Filter: f}
	}
	return s, nil
}

func events(v *visit) (*screen, error) {
	s, _, err := listed(v, view.Events, v.request.URL.Query(), v.Events)
	return s, err
}

func webhooks(v *visit) (*screen, error) {
	s, _, err := listed(v, view.Webhooks, v.request.URL.Query(), v.Webhooks)
	return s, err
}

// replayAll replays the dead deliveries of a Provider, and shows the list again with what became of it.
func replayAll(v *visit) (*screen, error) {
	if err := v.request.ParseForm(); err != nil {
		return nil, &api.Error{Status: http.StatusBadRequest, Text: "the form cannot be read"}
	}
	values := v.request.PostForm
	values.Set("state", string(view.StateDead))
	f, q, err := parseFilter(view.Deliveries, values)
	if err != nil {
		return nil, err
	}
	if f.Provider == "" {
		return nil, &api.Error{Status: http.StatusBadRequest, Text: "name the Provider whose deliveries are to be replayed"}
	}
	result, err := v.Replay(v.ctx(), v.user, v.namespace, view.ReplayRequest{
		Provider: q.Provider, Alert: q.Alert, State: q.State, Since: q.Since, Until: q.Until,
	})
	return after(err, replayed(result), func() (*screen, error) { return deliveriesOf(v, values) })
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
