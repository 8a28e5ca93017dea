package browse

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Fails when a list lacks a subject of the filter, has another one, is not sorted, or reads a quote in a subject as its end.
func TestTheSubjectsOfAFilterAreListed(t *testing.T) {
	s := newStream(t, true, []string{`s.b."x":1,"s.c`, "s.b.a", "s.a.z"}, []int{1, 1, 1, 1})
	for filter, want := range map[string][]string{"s.b.>": {`s.b."x":1,"s.c`, "s.b.a"}, "s.*.z": {"s.a.z"}, "s.none": nil} {
		got, err := s.Subjects(t.Context(), filter)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
}

// Fails when the server's refusal is taken for an empty list, or is not told from a loss of the connection.
func TestARefusedListOfSubjectsIsAnError(t *testing.T) {
	s := newStream(t, true, nil, nil)
	js, err := jetstream.New(s.Conn)
	must(t, err)
	must(t, js.DeleteStream(t.Context(), "S"))
	got, err := s.Subjects(t.Context(), "s.>")
	if !errors.Is(err, jetstream.ErrStreamNotFound) || got != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// known is a stream of which the name alone is asked.
type known struct{ jetstream.Stream }

func (known) CachedInfo() *jetstream.StreamInfo {
	return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "PAGED"}}
}

// E4: fails when subjects that come and go between the pages of a list hide another one: a delivery that waits would be overtaken, since
// nothing but the list tells of it.
func TestE4SubjectsThatComeAndGoBetweenPagesHideNoOther(t *testing.T) {
	const limit, count = 2 * pageOverlap, 5 * pageOverlap
	numbered := func(n int) string { return fmt.Sprintf("s.%06d", n) }
	for name, between := range map[string]func(subjects []string) []string{
		"none":      func(s []string) []string { return s },
		"one goes":  func(s []string) []string { return s[1:] },
		"many go":   func(s []string) []string { return s[pageOverlap+pageOverlap/2:] },
		"one comes": func(s []string) []string { return append([]string{"s.0"}, s...) },
	} {
		t.Run(name, func(t *testing.T) {
			var subjects []string
			for n := range count {
				subjects = append(subjects, numbered(n))
			}
			nc, requests := newServer(t, false), 0
			_, err := nc.Subscribe(apiInfo+"PAGED", func(m *nats.Msg) {
				if requests++; requests == 2 {
					subjects = between(subjects)
				}
				var asked struct{ Offset int }
				page := map[string]int{}
				if json.Unmarshal(m.Data, &asked) == nil {
					for _, s := range subjects[min(asked.Offset, len(subjects)):min(asked.Offset+limit, len(subjects))] {
						page[s] = 1
					}
				}
				body, err := json.Marshal(map[string]any{"total": len(subjects), "state": map[string]any{"subjects": page}})
				if err == nil {
					_ = m.Respond(body)
				}
			})
			must(t, err)
			got, err := (Stream{known{}, nc}).Subjects(t.Context(), "s.>")
			must(t, err)
			for n := 2 * pageOverlap; n < count; n++ { // those before may be gone
				if !slices.Contains(got, numbered(n)) {
					t.Fatalf("%s of %d is missing", numbered(n), count)
				}
			}
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Error("the list is not sorted, or has a subject twice")
			}
		})
	}
}
