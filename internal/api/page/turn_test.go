package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	g "maragu.dev/gomponents"

	"notifier/internal/api"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// turns is a Service that counts the turns to make a page, and those under way.
type turns struct {
	*api.Service
	taken, under int
	// err is the error of every Turn, full that of every Sending.
	err, full error
}

func (s *turns) Turn(context.Context, *api.User) (func(), error) {
	if s.err != nil {
		return nil, s.err
	}
	s.taken++
	s.under++
	return func() { s.under-- }, nil
}

func (s *turns) Sending(ctx context.Context, u *api.User, n int) (func(), error) {
	if s.under != 0 {
		return nil, fmt.Errorf("%d turns last until the page is sent", s.under)
	}
	if s.full != nil {
		return nil, s.full
	}
	return s.Service.Sending(ctx, u, n)
}

// T6. Fails when a page is made outside its user's turn: that of a namespace with a thousand objects of each kind takes a tenth of a
// second of the processor. Also fails when a user for whom there is no turn is not told so.
func TestT6PagesAreMadeInTheUsersTurn(t *testing.T) {
	f := newFixture()
	service, err := api.New(api.Options{Authority: f, Store: f, Worker: f, Explainer: f, Objects: f, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &turns{Service: service}
	get := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ns/team-a/health", http.NoBody)
		r.Header.Set("Authorization", "Bearer viewer")
		w := httptest.NewRecorder()
		New(s, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		return w
	}
	if w := get(); w.Code != http.StatusOK || s.taken != 1 || s.under != 0 {
		t.Errorf("%d, %d turns, %d of them under way: %.200s", w.Code, s.taken, s.under, w.Body)
	}
	s.err = api.ErrBusy
	if w := get(); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "Too many requests") {
		t.Errorf("without a turn: %d %v", w.Code, w.Header())
	}
}

// T6. Fails when the rows of a list are made before the page is written.
func TestT6RowsAreMadeWhenThePageIsWritten(t *testing.T) {
	made := 0
	l := &list[view.Event]{name: view.Events, items: make([]view.Event, 3)}
	table := l.table(nil, func(view.Event) g.Node { made++; return g.Text("x") }, nil, nil)
	if made != 0 {
		t.Errorf("%d rows are made before", made)
	}
	if err := table.Render(&strings.Builder{}); err != nil || made != 3 {
		t.Errorf("%d rows, %v", made, err)
	}
}

// size returns the bytes of a page.
func size(t *testing.T, f *fixture, path string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer viewer")
	w := httptest.NewRecorder()
	f.handler(t).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d", path, w.Code)
	}
	return w.Body.Len()
}

// T6. Fails when a page grows with a message or with the objects of a namespace beyond any use to its reader: a message of 3 MiB of characters
// that are written as code points makes one of 24 MiB, and a hundred thousand Providers one of 90 MiB, within eight seconds of a processor.
func TestT6PagesAreBounded(t *testing.T) {
	pageOf := func(path string, n int, fill func(*kept, int)) int {
		f := newFixture()
		fill(f.kept["team-a"], n)
		return size(t, f, path)
	}
	happened := event.Event{InvolvedObject: event.ObjectReference{Kind: "Bucket", Namespace: "team-a", Name: "b"}}
	for name, tc := range map[string]struct {
		path string
		most int
		fill func(*kept, int)
	}{
		"a message": {"/ns/team-a/events/big", maxMessage, func(k *kept, n int) {
			e := happened
			e.Message = strings.Repeat("\x7f", n)
			k.events = []event.Record{{ID: "big", Event: e}}
		}},
		"decisions": {"/ns/team-a/events/big", mostRows, func(k *kept, n int) {
			k.events = []event.Record{{ID: "big", Event: happened}}
			for i := range n {
				k.decisions = append(k.decisions, view.Decision{Alert: fmt.Sprintf("alert-%06d", i), Provider: "chat"})
			}
		}},
		"objects": {"/ns/team-a/health", mostRows, func(k *kept, n int) {
			for i := range n {
				k.health = append(k.health, view.Health{Kind: "Provider", Name: fmt.Sprintf("chat-%06d", i)})
			}
		}},
	} {
		whole, large := pageOf(tc.path, tc.most, tc.fill), pageOf(tc.path, 8*tc.most, tc.fill)
		if half := pageOf(tc.path, tc.most/2, tc.fill); whole < half+half/2 {
			t.Errorf("%s: a page of %d bytes has not all of %d", name, whole, tc.most)
		}
		if large > whole+whole/8 {
			t.Errorf("%s: a page has %d bytes, and %d of what is shown whole", name, large, whole)
		}
	}
}

// Fails when a replay that was done is answered with a refusal alone, because the page with its result cannot be read, made or
// sent then.
func TestWhatWasDoneIsSaidThoughItsPageCannotBeShown(t *testing.T) {
	f := newFixture()
	service, err := api.New(api.Options{Authority: f, Store: f, Worker: f, Explainer: f, Objects: f, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &turns{Service: service}
	f.result = view.ReplayResult{Replayed: 1}
	for status, broken := range map[int]error{http.StatusTooManyRequests: nil, http.StatusOK: errors.New("the store does not answer")} {
		f.err = broken
		if s.err = nil; broken == nil {
			s.err = api.ErrBusy
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ns/team-a/deliveries/d1/replay", http.NoBody)
		r.Header.Set("Authorization", "Bearer editor")
		w := httptest.NewRecorder()
		New(s, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		if w.Code != status || !strings.Contains(w.Body.String(), "Put on its way again") {
			t.Errorf("%v: %d %s", broken, w.Code, w.Body)
		}
	}
	f.err, s.err, s.full = nil, nil, api.ErrBusy
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ns/team-a/deliveries/d1/replay", http.NoBody)
	r.Header.Set("Authorization", "Bearer editor")
	w := httptest.NewRecorder()
	New(s, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "Put on its way again") {
		t.Errorf("with no room to send: %d %v %s", w.Code, w.Header(), w.Body)
	}
}
