package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

const (
	// maxListed bounds the deliveries that are read for one request.
	maxListed = 20 * view.MaxReplay
	// replayTime bounds the work on one request. What was replayed by then is told, while the API still waits for the answer.
	replayTime = 10 * time.Second
	// maxRefused bounds the refusals that are reported for one request.
	maxRefused = 100
)

// The reasons for which a delivery is not replayed.
const (
	refusedUnknown    = "nothing is kept of it"
	refusedWaiting    = "it waits to be sent already"
	refusedJustNow    = "it was replayed a moment ago"
	refusedNoProvider = "its Provider does not exist, or is being deleted"
	refusedSuspended  = "its Provider is suspended"
	refusedAnew       = "its Provider was deleted and made anew since"
	refusedType       = "its Provider's type is not sent such events"
	refusedTooLarge   = "it is larger than the bus takes"
	refusedNoAlert    = "its Alert was deleted, or deleted and made anew"
	refusedInert      = "its Alert is not served as it is: its conditions say why"
	refusedMoved      = "its Alert names another Provider now"
	refusedNoEvent    = "its event is not kept any more"
	refusedTest       = "it was a test message: ask for another test"
)

// Replay has deliveries of a namespace sent again, both dead letters and sent ones, one Provider's after another's. It replays at most
// view.MaxReplay of them, and no more than the bus takes in replayTime. It returns when they are on the bus. The others are left to another
// request, also after an error. Each keeps its ID and its place among the deliveries of its object, and is tried anew. Replay works in the
// process that serves the shards: elsewhere it returns view.ErrNoWorker. When so many were asked for that none is replayed now, it returns
// an *event.Error with a RetryAfter.
//
// After a crash in between, a repeated request replays each delivery for the first time, or again with the same ID.
func (d *Deliverer) Replay(ctx context.Context, namespace string, req view.ReplayRequest) (view.ReplayResult, error) {
	turn, err := d.asked.Acquire(ctx, namespace, 1)
	if err != nil {
		return view.ReplayResult{}, err
	}
	defer turn.Release()
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	r := &replayed{Deliverer: d, namespace: namespace, now: time.Now()}
	found, err := r.find(ctx, req)
	if err != nil {
		return view.ReplayResult{}, fmt.Errorf("find what to replay: %w", err)
	}
	of := map[string][]view.Delivery{}
	for _, d := range found {
		of[d.Provider] = append(of[d.Provider], d)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if err = r.provider(ctx, name, of[name]); err != nil {
			break
		}
	}
	switch {
	case r.result.Replayed > 0:
		r.result.More = r.result.More || err != nil
	case err != nil:
		return view.ReplayResult{}, err
	case r.limited:
		return view.ReplayResult{}, tooOften()
	}
	if r.result.More = r.result.More || r.limited; r.result.More {
		r.result.Until = req.Until
		if req.Until.IsZero() {
			r.result.Until = r.now
		}
	}
	return r.result, nil
}

// replayed is a request to replay as it is served.
type replayed struct {
	*Deliverer
	namespace string
	now       time.Time
	result    view.ReplayResult
	// limited says that too many replays of one of the Providers were asked for.
	limited bool
}

func (r *replayed) refuse(id, why string) {
	r.result.NotReplayed++
	if len(r.result.Refused) >= maxRefused {
		return
	}
	if r.result.Refused == nil {
		r.result.Refused = map[string]string{}
	}
	r.result.Refused[id] = why
}

func (r *replayed) refuseAll(of []view.Delivery, why string) {
	for i := range of {
		r.refuse(of[i].ID, why)
	}
}

// find returns the deliveries that a request selects, in the order of their events.
func (r *replayed) find(ctx context.Context, req view.ReplayRequest) (found []view.Delivery, err error) {
	if len(req.IDs) > 0 {
		found, err = r.named(ctx, req)
	} else {
		found, err = r.selected(ctx, req)
	}
	slices.SortFunc(found, func(x, y view.Delivery) int { return comparePlaces(x.Order, x.ID, y.Order, y.ID) })
	return found, err
}

// named returns the deliveries of some IDs, restricted to an Alert and a Provider if the request names them.
func (r *replayed) named(ctx context.Context, req view.ReplayRequest) (found []view.Delivery, err error) {
	kept, err := r.Bus.FindDeliveries(ctx, r.namespace, time.Time{}, req.IDs)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(req.IDs))) {
		switch d, known := kept[id]; {
		case !known, req.Provider != "" && req.Provider != d.Provider, req.Alert != "" && req.Alert != d.Alert:
			r.refuse(id, refusedUnknown)
		case d.State == view.StatePending:
			r.refuse(id, refusedWaiting)
		default:
			found = append(found, d)
		}
	}
	return found, nil
}

// selected returns those of the newest deliveries that the other fields of a request select. Of a delivery that was sent more than once,
// the last send counts.
func (r *replayed) selected(ctx context.Context, req view.ReplayRequest) (found []view.Delivery, err error) {
	q := view.Query{
		State: req.State, Provider: req.Provider, Alert: req.Alert, Since: req.Since, Until: req.Until, Limit: view.MaxLimit,
	}
	seen := map[string]bool{}
	for {
		page, err := r.Bus.ListDeliveries(ctx, r.namespace, q)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Items {
			if !seen[d.ID] && d.State != view.StatePending {
				found = append(found, d)
			}
			seen[d.ID] = true
		}
		if page.Next == "" {
			return found, nil
		}
		if len(seen) >= maxListed {
			r.result.More = true
			return found, nil
		}
		q.Cursor = page.Next
	}
}

// provider replays deliveries of one Provider, as many as the request may still replay.
func (r *replayed) provider(ctx context.Context, name string, of []view.Delivery) error {
	key := event.ProviderKey{Namespace: r.namespace, Provider: name}
	dest := r.Destinations.Get(r.namespace, name)
	switch {
	case r.result.Replayed >= view.MaxReplay:
		r.result.More = true
		return nil
	case !r.rate.Allow(key):
		r.limited = true
		r.refuseAll(of, tooOften().Reason)
		return nil
	case dest == nil:
		r.refuseAll(of, refusedNoProvider)
		return nil
	case dest.Suspended:
		r.refuseAll(of, refusedSuspended)
		return nil
	case dest.Unsupported:
		r.refuseAll(of, dest.NotReady)
		return nil
	}
	for room := view.MaxReplay - r.result.Replayed; len(of) > 0 && room > 0; room = view.MaxReplay - r.result.Replayed {
		var ready []ended
		for ; len(of) > 0 && len(ready) < room; of = of[1:] { // many refused ones may precede the others
			e, why, err := r.ended(ctx, key, &of[0], dest)
			switch {
			case err != nil:
				return err
			case why != "":
				r.refuse(of[0].ID, why)
			default:
				ready = append(ready, e)
			}
		}
		resent, refused, err := r.resend(ctx, key, ready)
		r.result.Replayed += resent
		for id, why := range refused {
			r.refuse(id, why)
		}
		if err != nil {
			return err
		}
	}
	r.result.More = r.result.More || len(of) > 0
	return nil
}

// ended returns a delivery to replay, or the reason why it is not replayed.
func (r *replayed) ended(ctx context.Context, key event.ProviderKey, v *view.Delivery, dest *Destination) (e ended, why string, err error) {
	if v.State != view.StateDead {
		return r.sent(ctx, v, dest)
	}
	err = r.inTurn(ctx, r.namespace, func() error {
		letter, err := r.readEnded(ctx, key, &ended{seq: v.Seq})
		switch {
		case errors.Is(err, view.ErrNotFound):
			why = refusedUnknown // it was removed meanwhile
		case err != nil:
			return err
		default:
			e, why = endedOf(&letter.Delivery, letter.Seq), r.dead(letter, dest)
		}
		return nil
	})
	return e, why, err
}

// dead returns why a dead letter is not replayed, "" if it is.
func (r *replayed) dead(letter *event.Dead, dest *Destination) string {
	d := &letter.Delivery
	if letter.Label == event.LabelTooLarge {
		return refusedTooLarge
	}
	if d.ProviderUID != "" && d.ProviderUID != dest.UID {
		return refusedAnew
	}
	if a, known := r.Alerts.Lookup(d.Namespace, d.Alert); !d.Test && (!known || a.UID != d.AlertUID) {
		return refusedNoAlert
	}
	return ""
}

// sent returns a delivery that was sent, as it is made anew. It returns the reason if that is not possible.
func (r *replayed) sent(ctx context.Context, v *view.Delivery, dest *Destination) (e ended, why string, _ error) {
	if v.Alert == "" {
		return e, refusedTest, nil
	}
	a, known := r.Alerts.Lookup(r.namespace, v.Alert)
	switch {
	case !known:
		return e, refusedNoAlert, nil
	case a.inert:
		return e, refusedInert, nil
	case a.Provider != v.Provider:
		return e, refusedMoved, nil
	case dest.Created.After(v.Time):
		return e, refusedAnew, nil
	}
	err := r.inTurn(ctx, r.namespace, func() error {
		d, err := r.madeAnew(ctx, a, v.Order, v.ID)
		switch {
		case errors.Is(err, errOtherAlert):
			why = refusedNoAlert
		case errors.Is(err, view.ErrNotFound):
			why = refusedNoEvent
		case err != nil:
			return err
		case !dest.takes(notification(d)):
			why = refusedType
		default:
			e = endedOf(d, 0)
			d.ProviderUID, d.Destination, d.Routed, d.Replays, d.Again = dest.UID, dest.Version, v.Routed, v.Replays, true
			d.Event, d.Authored, d.Annotated = event.Event{}, nil, nil
			e.sent = d
		}
		return nil
	})
	return e, why, err
}
