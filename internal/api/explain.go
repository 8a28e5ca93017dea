package api

import (
	"context"
	"errors"

	"notifier/internal/event/view"
)

// maxLookups bounds the deliveries that one explanation looks up. Of more Alerts the decisions are told without them.
const maxLookups = 100

// Explain is what the Alerts of the namespace, as they are now, decide about an event, and what became of its deliveries.
func (s *Service) Explain(ctx context.Context, u *User, namespace, id string) (view.Explanation, error) {
	return guarded(ctx, s, u, namespace, func(ctx context.Context) (view.Explanation, error) {
		if !isID(id) {
			return view.Explanation{}, view.ErrNotFound
		}
		record, err := s.options.Store.FindEvent(ctx, namespace, id)
		if err != nil {
			return view.Explanation{}, err
		}
		if record.Event.InvolvedObject.Namespace != namespace {
			return view.Explanation{}, view.ErrNotFound
		}
		told := view.Explanation{Event: view.EventOf(record), Decisions: s.options.Explainer.Explain(ctx, record)}
		if told.Decisions == nil {
			told.Decisions = []view.Decision{}
		}
		return told, s.addDeliveries(ctx, namespace, told.Decisions)
	}, GetEvent, GetDelivery)
}

// addDeliveries looks up what is kept of the deliveries that decisions name: those of Alerts that match first.
func (s *Service) addDeliveries(ctx context.Context, namespace string, decisions []view.Decision) error {
	looked := 0
	for _, matched := range []bool{true, false} {
		for i := range decisions {
			d := &decisions[i]
			if d.Matched != matched || d.DeliveryID == "" || looked == maxLookups {
				continue
			}
			looked++
			found, err := s.options.Store.FindDelivery(ctx, namespace, d.DeliveryID)
			switch {
			case err == nil:
				d.Delivery = &found.Delivery
			case !errors.Is(err, view.ErrNotFound):
				return err
			}
		}
	}
	return nil
}
