package page

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// replayOne replays a delivery, and shows it again with the result.
func replayOne(v *visit) (*screen, error) {
	id := v.request.PathValue("id")
	result, err := v.Replay(v.ctx(), v.user, v.namespace, view.ReplayRequest{IDs: []string{id}})
	n := &notice{text: "Put on its way again. Its outcome shows here in a moment."}
	if why, refused := result.Refused[id]; refused {
		n = &notice{failed: true, text: "Not replayed: " + why}
	}
	return after(err, n, func() (*screen, error) { return deliveryOf(v, id) })
}

// after shows the page of an action again, with its result: a notice, or the error.
func after(err error, n *notice, show func() (*screen, error)) (*screen, error) {
	s, broken := show()
	switch {
	case broken != nil && err != nil:
		return nil, err
	case broken != nil: // a refusal would have the user do it again
		s = problem(http.StatusOK, "Done", "The page with the result cannot be shown at the moment")
	}
	s.notice = n
	if err != nil {
		e := api.AsError(err)
		s.status, s.notice = e.Status, &notice{failed: true, text: label(e.Text) + "."}
	}
	return s, nil
}

// replayAll replays the dead deliveries of a Provider, and shows the list again with the result. The filter is in the address, as that of the
// list is: a browser that comes back to the address is led to the list.
func replayAll(v *visit) (*screen, error) {
	v.values.Set("state", string(view.StateDead))
	_, q, err := parseFilter(view.Deliveries, v.values)
	if err != nil {
		return nil, err
	}
	if q.Provider == "" {
		return nil, &api.Error{Status: http.StatusBadRequest, Text: "name the Provider whose deliveries are to be replayed"}
	}
	result, err := v.Replay(v.ctx(), v.user, v.namespace, view.ReplayRequest{
		Provider: q.Provider, Alert: q.Alert, State: q.State, Since: q.Since, Until: q.Until,
	})
	return after(err, replayed(result), func() (*screen, error) { return deliveries(v) })
}

// mostRefused bounds the refusals that a notice lists.
const mostRefused = 10

// replayed returns the notice of a replay's result.
func replayed(r view.ReplayResult) *notice {
	n := &notice{failed: r.NotReplayed > 0, text: "Put on their way again: " + count(r.Replayed, "delivery", "deliveries") + "."}
	if r.More {
		n.text += " There are more: replay once more for the next ones."
	}
	for _, id := range slices.Sorted(maps.Keys(r.Refused)) {
		if len(n.lines) == mostRefused {
			n.lines = append(n.lines, fmt.Sprintf("and %d more", r.NotReplayed-mostRefused))
			break
		}
		n.lines = append(n.lines, "Not replayed: "+id+": "+r.Refused[id])
	}
	return n
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
