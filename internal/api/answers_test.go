package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// slow is a value that takes two seconds to encode. It counts the values that are being encoded.
type slow struct{ at, most *atomic.Int32 }

func (s slow) MarshalJSON() ([]byte, error) {
	s.most.Store(max(s.most.Load(), s.at.Add(1)))
	<-time.After(2 * time.Second)
	s.at.Add(-1)
	return []byte("{}"), nil
}

// T6. Fails when a user has answers made without a bound in number or in time: what was read at once may take long to be encoded.
func TestT6AnswersAreMadeInTheUsersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		made := slow{&atomic.Int32{}, &atomic.Int32{}}
		const asked = 20
		errs := make(chan error, asked)
		for range asked {
			go func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
				errs <- w.handler.send(httptest.NewRecorder(), r, &User{Name: "jane"}, made)
			}()
		}
		answered := 0
		for range asked {
			if err := <-errs; err == nil {
				answered++
			}
		}
		if answered != 1 || made.most.Load() != 1 {
			t.Errorf("%d answers are made, %d at a time", answered, made.most.Load())
		}
		if code := w.ask("jane", "GET", "/v1/namespaces/team-a/deliveries", "").Code; code != http.StatusTooManyRequests {
			t.Errorf("a user for whom an answer was made for two seconds reads, and is answered %d", code)
		}
	})
}

// T6. Fails when what a watch has missed, up to five hundred items, is encoded outside of the user's turn: nobody is charged for it.
func TestT6MissedItemsAreMadeInTheUsersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.deliveries = []view.Delivery{{ID: "d1"}}
		w.store.entered, w.store.takes = make(chan string), time.Millisecond
		jane, began := &User{Name: "jane"}, time.Now()
		go func() {
			<-w.store.entered
			sent, err := w.handler.service.Answer(t.Context(), jane, func() (int, error) { // the next after the read
				<-time.After(waitTimeout / 2)
				return 0, nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			sent()
		}()
		q := view.Query{Since: began.Add(-time.Hour)}
		of := &watch{list: view.Deliveries, query: q, read: func(ctx context.Context, q view.Query) ([]view.Item, string, error) {
			page, err := w.handler.service.Deliveries(ctx, jane, "team-a", q)
			return []view.Item{page.Items[0]}, page.Next, err
		}}
		sent, err := w.handler.catchUp(t.Context(), jane, of)
		if err != nil || len(of.missed) != 1 || time.Since(began) < waitTimeout/2 {
			t.Errorf("after %s: %d items, %v", time.Since(began), len(of.missed), err)
		}
		sent()
		<-time.After(waitTimeout)
	})
}

// Fails when an answer larger than a user's bound on bytes is refused for ever, with the advice to wait.
func TestAnAnswerBeyondTheBoundOfBytesIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		r := &event.Record{ID: "e1"}
		r.Event.InvolvedObject.Namespace, r.Event.Message = "team-a", strings.Repeat("x", userAnswerBytes)
		w.store.records["e1"] = r
		got := w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/events/e1/explain", nil)
		if n := got.Body.Len(); n <= userAnswerBytes {
			t.Errorf("the answer has %d bytes", n)
		}
	})
}

// T6. Fails when the form of an answer makes it many times as long as the event was that somebody posted: the bound on the bytes that are sent
// counts less of it, and eight such answers would have three times the memory of that bound.
func TestT6AnAnswerIsHardlyLongerThanItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time does not advance in the bubble, and is not charged to the user
		const size = 1 << 20
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		for _, char := range []string{"x", "<", "&", "'", "\x7f", "\u2028", "\u202e"} {
			r := &event.Record{ID: "e1"}
			r.Event.InvolvedObject.Namespace, r.Event.Message = "team-a", strings.Repeat(char, size/len(char))
			w.store.records["e1"] = r
			got := w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/events/e1/explain", nil)
			if n := got.Body.Len(); n > 2*size+size/8 {
				t.Errorf("the answer has %d bytes of a message of %d that is made of %q", n, size, char)
			}
		}
	})
}

// Fails when a request that was served is answered with a refusal, after which clients send it again.
func TestWhatWasDoneIsNotAnsweredWithARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", writes...)
		jane := &User{Name: "jane"}
		sent, err := w.handler.service.Answer(t.Context(), jane, func() (int, error) { return userAnswerBytes, nil })
		must(t, err)
		defer sent()
		for _, path := range []string{"deliveries/aa/replay", "providers/slack/test"} {
			w.want(http.StatusOK, "jane", "POST", "/v1/namespaces/team-a/"+path, nil)
		}
		if got := w.ask("jane", "POST", "/v1/namespaces/team-a/deliveries/replay", `{"state":"sent"}`); got.Code != http.StatusOK {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
		if len(w.store.replays) != 2 || len(w.store.tests) != 1 {
			t.Errorf("%d replays and %d tests", len(w.store.replays), len(w.store.tests))
		}
	})
}

// T6. Fails when a few users who leave their answers unread, or keep as many watches as they may, leave others without any.
func TestT6UsersWhoHoldAllTheyMayLeaveOthersSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.deliveries = []view.Delivery{{ID: "aa", Failure: strings.Repeat("x", 32<<10)}}
		for i := range max(maxAnswerBytes/userAnswerBytes, maxWatches/userWatches) + 1 {
			user := &User{Name: fmt.Sprint("user-", i)}
			if release, err := w.handler.service.Answer(t.Context(), user, func() (int, error) { return userAnswerBytes, nil }); err == nil {
				defer release()
			}
			for range userWatches {
				if release, err := take(t.Context(), w.handler.service.limits.watches, user, 1); err == nil {
					defer release()
				}
			}
		}
		w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/deliveries", nil)
		s := w.watch(w.serve(), "jane", "", nil)
		if s.resp.StatusCode != http.StatusOK {
			t.Errorf("a watch of another user is answered %d", s.resp.StatusCode)
		}
	})
}
