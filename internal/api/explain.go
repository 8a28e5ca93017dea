package api

import (
	"context"
	"time"

	"notifier/internal/event/view"
)

// maxLookups bounds the deliveries that one explanation looks up. Decisions beyond it are shown without their deliveries.
const maxLookups = 200

// Explain returns an event with the decisions of the namespace's Alerts, as they are now, and the deliveries that are kept of it.
func (s *Service) Explain(ctx context.Context, u *User, namespace, id string) (view.Explanation, error) {
	return detail(ctx, visit{s, u, namespace}, func(ctx context.Context, made time.Time) (view.Explanation, error) {
		if !isID(id) {
			return view.Explanation{}, view.ErrNotFound
		}
		record, err := s.options.Store.FindEvent(ctx, namespace, id)
		if err != nil {
			return view.Explanation{}, err
		}
		if record.Event.InvolvedObject.Namespace != namespace || record.Accepted.Before(made) {
			return view.Explanation{}, view.ErrNotFound
		}
		told := view.Explanation{Event: view.EventOf(record), Decisions: s.options.Explainer.Explain(ctx, record)}
		if told.Decisions == nil {
			told.Decisions = []view.Decision{}
		}
		return told, s.addDeliveries(ctx, namespace, told)
	}, GetEvent, GetDelivery)
}

// addDeliveries adds the kept deliveries to their decisions. It looks up those of matching Alerts first.
func (s *Service) addDeliveries(ctx context.Context, namespace string, told view.Explanation) error {
	var ids []string
	for _, matched := range []bool{true, false} {
		for _, d := range told.Decisions {
			if d.Matched == matched && d.DeliveryID != "" && len(ids) < maxLookups {
				ids = append(ids, d.DeliveryID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := s.options.Store.FindDeliveries(ctx, namespace, told.Event.Accepted, ids)
	for i := range told.Decisions {
		if d, ok := found[told.Decisions[i].DeliveryID]; ok {
			told.Decisions[i].Delivery = &d
		}
	}
	return err
}
