package bus

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

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

// E2. After many crashes a consumer's messages are handed out one at a time. Fails when one whose acknowledgement was not confirmed counts as
// in hand: no other is handed out before the next term.
func TestE2AfterALostAcknowledgementTheNextMessageIsHandedOut(t *testing.T) {
	t.Parallel()
	b := open(t, "", func(o *Options) { o.URL, o.Shards = remote(t), 1 })
	ctx := testContext(t)
	r := triggerRole(0)
	c, err := b.takeOver(ctx, r)
	must(t, err)
	c.last = 2
	c.crashes = &crashes{
		limits: defaultPoisoning, entry: workerEntry[map[string]*crashCount]{bucket: b.buckets[bucketWorker], key: crashesKey},
		consumers: map[string]*crashCount{r.name: {Crashes: defaultPoisoning.cautiousAfter}},
	}
	out := make(chan event.Message[event.Trigger], 1)
	p := newPuller(c, stage[event.Trigger]{}, out)
	c.gauge = b.progress.start(r)
	defer c.gauge.stop()
	for seq := range uint64(2) {
		a := c.newAcker(&nats.Msg{})
		p.queue = append(p.queue, incoming[event.Trigger]{message: event.Message[event.Trigger]{Seq: seq + 1, Acker: a}, acker: a, msg: &nats.Msg{}})
	}
	_, first, err := p.next(ctx)
	must(t, err)
	p.queue = p.queue[1:]
	if to, _, err := p.next(ctx); to != nil || err != nil {
		t.Fatalf("two are handed out at a time, error %v", err)
	}
	if first.Ack(ctx) == nil {
		t.Fatal("confirmed, although there is no server")
	}
	if to, next, err := p.next(ctx); to == nil || next.Seq != 2 || err != nil {
		t.Errorf("the next one is not handed out, error %v", err)
	}
}
