package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	g "maragu.dev/gomponents"

	"notifier/internal/api"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// sender is the writer of an answer. While the answer is sent, it takes the user's turn.
type sender struct {
	*httptest.ResponseRecorder
	take func() error
}

func (s *sender) Write(p []byte) (int, error) {
	if err := s.take(); err != nil {
		return 0, err
	}
	return s.ResponseRecorder.Write(p)
}

// T6. Fails when a page is made outside its user's turn: that of a namespace with a thousand objects of each kind takes a tenth of a
// second of the processor. Also fails when a turn lasts until the page is sent, or when a user for whom there is no turn is not told so.
func TestT6PagesAreMadeInTheUsersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newFixture().service(t)
		w := &sender{httptest.NewRecorder(), func() error {
			sent, err := service.Answer(t.Context(), &api.User{Name: "viewer"}, func() (int, error) { return 0, nil })
			if err == nil {
				sent()
			}
			return err
		}}
		if ask(t, service, http.MethodGet, "/", "viewer", w); w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%d: %d bytes are sent", w.Code, w.Body.Len())
		}
		defer occupy(t, service, "viewer")()
		refused := httptest.NewRecorder() // of a page that needs no turn to be read
		ask(t, service, http.MethodGet, "/", "viewer", refused)
		if refused.Code != http.StatusTooManyRequests || refused.Header().Get("Retry-After") == "" || !strings.Contains(refused.Body.String(), "Too many requests") {
			t.Errorf("without a turn: %d %v", refused.Code, refused.Header())
		}
	})
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
	for name, tc := range map[string]struct {
		status int
		broken error
		before func(t *testing.T, s *api.Service) (after func())
	}{
		"read": {http.StatusOK, errors.New("the store does not answer"), func(*testing.T, *api.Service) func() { return func() {} }},
		"made": {http.StatusTooManyRequests, nil, func(t *testing.T, s *api.Service) func() { return occupy(t, s, "editor") }},
		"sent": {http.StatusTooManyRequests, nil, func(t *testing.T, s *api.Service) func() {
			fill(t, s, "editor")
			return func() {}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture()
			f.result, f.err = view.ReplayResult{Replayed: 1}, tc.broken
			service, w := f.service(t), httptest.NewRecorder()
			defer tc.before(t, service)()
			ask(t, service, http.MethodPost, "/ns/team-a/deliveries/d1/replay", "editor", w)
			waits := w.Header().Get("Retry-After") != ""
			if w.Code != tc.status || waits != (tc.broken == nil) || !strings.Contains(w.Body.String(), "Put on its way again") {
				t.Errorf("not %s: %d %v %s", name, w.Code, w.Header(), w.Body)
			}
		})
	}
}
