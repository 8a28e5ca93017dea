package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

// contender is one side of a comparison of events: the address for its events, its process, and the ledger that receives
// its deliveries.
type contender struct {
	url         string
	pid         int
	sink        *ledger
	connections int
	// events are sent in turn, one template an object; deliveries is the number of deliveries for each event.
	events     []template
	deliveries int
	// run measures a window of a contender that takes no events; nil for the others.
	run      func(ctx context.Context, length time.Duration) (outcome, error)
	outcomes []outcome
}

// outcome is the result of a window.
type outcome struct {
	// rate is events a second, from the first request to the last delivery; micros is the process's processor time for
	// each, in µs.
	rate, micros float64
	// others is the number of processors that other processes used meanwhile.
	others float64
	// took is the time of each delivery from its POST to the sink, sorted.
	took []time.Duration
}

// template is an event in two parts, with its message to be written between them.
type template struct{ head, tail string }

const messagePlace = "MESSAGE"

// templates returns events about the tenants' Kustomizations app-0 to app-(objects-1), in turn of the tenants.
func templates(ctx context.Context, objects int, tenants ...*env.Tenant) ([]template, error) {
	all := make([]template, objects*len(tenants))
	err := parallel(ctx, len(all), func(ctx context.Context, i int) error {
		t := tenants[i%len(tenants)]
		e, err := t.Event(ctx, "Kustomization", fmt.Sprintf("app-%d", i/len(tenants)), "info", "ReconciliationSucceeded", messagePlace, "main@sha1:1")
		if err != nil {
			return err
		}
		body, err := json.Marshal(e)
		if err != nil {
			return err
		}
		head, tail, found := strings.Cut(string(body), messagePlace)
		if !found {
			return errors.New("an event without its message")
		}
		all[i] = template{head, tail}
		return nil
	})
	return all, err
}

// sequence returns a load of events about the contender's objects, each of which belongs to one connection.
func (c *contender) sequence(round string) load.Sequence {
	head := "POST / HTTP/1.1\r\nHost: " + strings.TrimPrefix(c.url, "http://") + "\r\nContent-Type: application/json\r\nContent-Length: "
	connections := min(c.connections, len(c.events))
	return load.Sequence{
		Base: c.url, Connections: connections,
		Request: func(buf []byte, connection, k int) []byte {
			object, number := c.numbers(connections, connection, k)
			e := c.events[object]
			message := messageOf(round, object, number)
			return fmt.Appendf(buf, "%s%d\r\n\r\n%s%s%s", head, len(e.head)+len(message)+len(e.tail), e.head, message, e.tail)
		},
	}
}

// numbers returns the object of request k of a connection, and the number of the event among the object's events.
func (c *contender) numbers(connections, connection, k int) (object, number int) {
	own := c.own(connections, connection)
	return connection + k%own*connections, k / own
}

// own returns the number of objects that belong to a connection.
func (c *contender) own(connections, connection int) int {
	return (len(c.events) - connection + connections - 1) / connections
}

// window sends a sequence, waits for all deliveries and checks them.
func (c *contender) window(ctx context.Context, s load.Sequence) (o outcome, err error) {
	c.sink.begin()
	before := c.sink.count.Load()
	m, err := newMeter(c.pid)
	if err != nil {
		return o, err
	}
	sent, err := s.Run(ctx)
	if err != nil {
		return o, err
	}
	if err := c.sink.wait(ctx, before+int64(sent.Total()*c.deliveries)); err != nil {
		return o, err
	}
	process, others, err := m.read()
	if err != nil {
		return o, err
	}
	receipts, err := c.sink.check(false)
	if err != nil {
		return o, err
	}
	o.rate = float64(sent.Total()) / c.sink.lastAt().Sub(m.begin).Seconds()
	o.micros = float64(process.Microseconds()) / float64(sent.Total())
	o.others = others
	o.took = c.latencies(sent, receipts)
	return o, nil
}

// latencies returns the times of the deliveries, sorted.
func (c *contender) latencies(sent load.Sent, receipts []receipt) []time.Duration {
	took := make([]time.Duration, 0, len(receipts))
	for _, r := range receipts {
		connection := r.object % len(sent)
		k := r.number*c.own(len(sent), connection) + r.object/len(sent)
		took = append(took, r.at.Sub(sent[connection][k]))
	}
	slices.Sort(took)
	return took
}

// interleave measures the contenders in turn when the machine is quiet: one window of the length each to warm up, then n
// windows each.
func interleave(ctx context.Context, n int, length time.Duration, contenders ...*contender) error {
	for k := range 1 + n {
		for i := range contenders {
			c := contenders[(i+k)%len(contenders)] // each is first in turn, since the machine's speed varies meanwhile
			if err := quiet(ctx, c.pid); err != nil {
				return err
			}
			o, err := c.measure(ctx, length)
			if err != nil {
				return err
			}
			if k > 0 {
				c.outcomes = append(c.outcomes, o)
			}
		}
	}
	return nil
}

// measure measures one window.
func (c *contender) measure(ctx context.Context, length time.Duration) (outcome, error) {
	if c.run != nil {
		return c.run(ctx, length)
	}
	s := c.sequence(fmt.Sprintf("window-%d", time.Now().UnixNano()))
	s.For = length
	return c.window(ctx, s)
}

// quieter returns the least disturbed windows: half of them and one more.
func (c *contender) quieter() []outcome {
	sorted := slices.SortedFunc(slices.Values(c.outcomes), func(a, b outcome) int { return cmp.Compare(a.others, b.others) })
	return sorted[:len(sorted)/2+1]
}

// rate returns the median of events a second.
func (c *contender) rate() float64 { return c.median(func(o outcome) float64 { return o.rate }) }

// micros returns the median of the processor time an event, in µs.
func (c *contender) micros() float64 { return c.median(func(o outcome) float64 { return o.micros }) }

func (c *contender) median(of func(outcome) float64) float64 {
	var values []float64
	for _, o := range c.quieter() {
		values = append(values, of(o))
	}
	return load.Median(values)
}

// String returns the measured rate and processor time.
func (c *contender) String() string {
	return fmt.Sprintf("%.0f/s at %.0f µs of processor each", c.rate(), c.micros())
}
