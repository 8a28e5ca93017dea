package subscribe

import (
	"context"
	"encoding/json"

	"notifier/internal/receiver"
	"notifier/internal/receiver/receivertest"
)

var elapse = receivertest.Elapse

// reports are the reports that were put, by key.
type reports map[string]receiver.Deliveries

func (r reports) Put(_ context.Context, key string, value []byte) error {
	var d receiver.Deliveries
	err := json.Unmarshal(value, &d)
	r[key] = d
	return err
}
