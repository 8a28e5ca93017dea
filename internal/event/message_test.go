package event_test

import (
	"context"
	"testing"

	"notifier/internal/event"
)

// counting counts the acks and naks of a message.
type counting struct{ acks, naks int }

func (c *counting) Ack(context.Context) error { c.acks++; return nil }

func (c *counting) InProgress() error { return nil }

func (c *counting) Nak() error { c.naks++; return nil }

// Fails when a part ends the whole before the others have, or ends it twice: its event would then be done while a delivery is
// unsent (E2).
func TestAMessageIsDoneWithTheLastOfItsParts(t *testing.T) {
	for n := 1; n <= 3; n++ {
		whole := &counting{}
		for i, part := range event.Divide(whole, n) {
			if whole.acks != 0 {
				t.Errorf("%d parts: acknowledged before part %d", n, i)
			}
			for range 2 {
				if err := part.Ack(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := part.Nak(); err != nil {
				t.Error(err)
			}
		}
		if whole.acks != 1 || whole.naks != 0 {
			t.Errorf("%d parts: acknowledged %d times, given back %d times", n, whole.acks, whole.naks)
		}
		whole = &counting{}
		for _, part := range event.Divide(whole, n) {
			for range 2 {
				if err := part.Nak(); err != nil {
					t.Error(err)
				}
			}
			if err := part.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if whole.acks != 0 || whole.naks == 0 {
			t.Errorf("%d parts: acknowledged %d times, given back %d times", n, whole.acks, whole.naks)
		}
	}
}
