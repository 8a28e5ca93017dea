package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// randomSink is an API server that is slow, away, restarts or refuses, and compares the Events that it takes with those before.
type randomSink struct {
	t  *testing.T
	mu sync.Mutex
	// draw is used under the lock. away is the share of the writes in a hundred that fail.
	draw *rand.Rand
	away int
	// atWork has the namespaces that are written to, stored the counts by Event, and last the number of the last Event of each namespace.
	atWork  map[string]bool
	stored  map[string]int32
	last    map[string]int
	refused int
}

func (s *randomSink) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	return s.write(ctx, e, true)
}

func (s *randomSink) Patch(ctx context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.write(ctx, e, false)
}

func (s *randomSink) write(ctx context.Context, e *corev1.Event, create bool) (*corev1.Event, error) {
	s.mu.Lock()
	if s.atWork[e.Namespace] {
		s.t.Errorf("two Events of %s are written at once", e.Namespace)
	}
	s.atWork[e.Namespace] = true
	takes, fate := time.Duration(1+s.draw.IntN(50))*time.Millisecond, s.draw.IntN(100)
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.atWork, e.Namespace)
	before := s.stored[e.Namespace+"/"+e.Name]
	switch {
	case fate < s.away/2:
		return nil, errors.New("connection refused")
	case fate >= 95 && s.away > 0:
		s.refused++
		return nil, apierrors.NewForbidden(corev1.Resource("events"), e.Name, errors.New("exceeded quota"))
	case !create && before == 0:
		return nil, apierrors.NewNotFound(corev1.Resource("events"), e.Name)
	case create && before > 0:
		return nil, apierrors.NewAlreadyExists(corev1.Resource("events"), e.Name)
	}
	s.take(e, before)
	if fate < s.away { // it was written, and the answer is lost
		return nil, apierrors.NewServiceUnavailable("the answer is lost")
	}
	return e, nil
}

// take stores an Event. The caller holds the lock.
func (s *randomSink) take(e *corev1.Event, before int32) {
	if e.Count < before {
		s.t.Errorf("the count of %s goes from %d to %d", e.Name, before, e.Count)
	}
	s.stored[e.Namespace+"/"+e.Name] = e.Count
	var number int
	if _, err := fmt.Sscanf(e.Message, "no. %d", &number); err != nil {
		return // one of several equal ones
	}
	if last := s.last[e.Namespace]; number < last {
		s.t.Errorf("no. %d of %s is written after no. %d", number, e.Namespace, last)
	}
	s.last[e.Namespace] = number
}

// FuzzTheEventsOfANamespaceAreWrittenInOrder records Events of three namespaces while the API server is slow, away, or refuses some. Fails when
// two of a namespace are written at once or in another order, when the count of one goes back, when an Event that was neither refused nor one too
// many is not counted in the end, or when a namespace without Events keeps a place or a line.
func FuzzTheEventsOfANamespaceAreWrittenInOrder(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { recordRandomly(t, seed) })
	})
}

func recordRandomly(t *testing.T, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 1))
	sink := &randomSink{
		t: t, draw: rand.New(rand.NewPCG(seed, 2)), atWork: map[string]bool{}, stored: map[string]int32{}, last: map[string]int{},
	}
	r := New(sink, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	synctest.Wait()
	equal, numbered := map[string]int32{}, 0
	for step := range 100 {
		namespace := fmt.Sprint("team-", draw.IntN(3))
		switch draw.IntN(4) {
		case 0:
			if equal[namespace] < 20 { // client-go leaves out more of an object
				equal[namespace]++
				r.Event("Alert", namespace, "all", "u", "Warning", "DeliveryFailed", "failed")
			}
		case 1, 2: // each of an object of its own
			numbered++
			r.Event("Provider", namespace, fmt.Sprint("chat-", step), "u", "Normal", "Succeeded", fmt.Sprint("no. ", step))
		default:
			sink.mu.Lock()
			sink.away = []int{0, 30, 100}[draw.IntN(3)]
			sink.mu.Unlock()
		}
		<-time.After(time.Duration(draw.IntN(200)) * time.Millisecond)
		checkLines(t, r)
	}
	sink.mu.Lock()
	sink.away = 0
	sink.mu.Unlock()
	pass(5 * time.Minute)
	for _, namespace := range []string{"team-0", "team-1", "team-2"} {
		if equal[namespace] > 0 { // one more, so that the count has those that were refused
			equal[namespace]++
			r.Event("Alert", namespace, "all", "u", "Warning", "DeliveryFailed", "failed")
		}
	}
	pass(5 * time.Minute)
	cancel()
	wg.Wait()
	sum, want := int32(0), int32(numbered-sink.refused)
	for _, n := range equal {
		want += n
	}
	for _, n := range sink.stored {
		sum += n
	}
	if most := want + int32(sink.refused); sum < want || sum > most {
		t.Errorf("%d are counted, want %d to %d", sum, want, most)
	}
	if len(r.lines) != 0 || r.places.Len() != 0 {
		t.Errorf("%d namespaces keep a line, %d a place", len(r.lines), r.places.Len())
	}
}

// checkLines compares the lines with the places.
func checkLines(t *testing.T, r *Recorder) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for namespace, line := range r.lines {
		if len(line) == 0 {
			t.Errorf("%s has a line without Events", namespace)
		}
		for i, e := range line {
			if e.object.Namespace != namespace || i > 0 && e.coalesced != nil {
				t.Errorf("no. %d of %s is of %s, or was begun before the first", i, namespace, e.object.Namespace)
			}
		}
	}
	if r.places.Len() != len(r.lines) {
		t.Errorf("%d namespaces have places, and %d lines", r.places.Len(), len(r.lines))
	}
}
