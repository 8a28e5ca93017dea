package bus

import (
	"errors"
	"testing"

	"notifier/internal/event"
)

// Fails when the answer that ends a fulfilled request counts as a refusal: every 256 messages then cost a pause.
func TestAnAnswerToARequestDecidesWhenToAskAgain(t *testing.T) {
	for name, c := range map[string]struct {
		code, description string
		again, pause      bool // ask again, and only after a pause
		err               error
	}{
		"all that was asked for has come":       {code: "409", description: "Batch Completed"},
		"nothing came in time":                  {code: "408", description: "Request Timeout", again: true},
		"the next message exceeds what is left": {code: "409", description: "Message Size Exceeds MaxBytes", again: true},
		"the consumer moved to another server":  {code: "409", description: "Leadership Change", again: true, pause: true},
		"nobody answers for the consumer":       {code: "503", again: true, pause: true},
		"another replica took over":             {code: "423", description: "Nats-Wrong-Pin-Id", again: true, err: errFenced},
	} {
		t.Run(name, func(t *testing.T) {
			p := &puller[event.Trigger]{asked: 5}
			if err := p.status(c.code, c.description); !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if again, pause := p.asked == 0, p.retry != nil; again != c.again || pause != c.pause {
				t.Errorf("again %v, pause %v", again, pause)
			}
		})
	}
	p := &puller[event.Trigger]{}
	for code, description := range map[string]string{"409": "Consumer Deleted", "400": "Bad Request"} {
		if err := p.status(code, description); err == nil {
			t.Errorf("%s %s ends nothing", code, description)
		}
	}
}
