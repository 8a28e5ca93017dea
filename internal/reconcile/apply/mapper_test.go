package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asking returns a function that asks for a kind, fails the test unless the answer is want, and waits for what that began.
func asking(t *testing.T, m *mapper) func(version, kind string, want error) {
	return func(version, kind string, want error) {
		t.Helper()
		if _, err := m.resource(t.Context(), "team-a", version, kind); !errors.Is(err, want) {
			t.Fatalf("%s %s: %v", version, kind, err)
		}
		synctest.Wait()
	}
}

// Fails when answers are not kept, or when what is not there is asked for each time; and when an answer is kept for ever.
func TestDiscoveryIsAskedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		m := newMapper(api)
		defer m.flights.Wait()
		ask := asking(t, m)
		const source = "source.toolkit.fluxcd.io/v1"
		for range 90 { // 9 s
			for _, version := range []string{source, ""} {
				ask(version, "GitRepository", nil)
				ask(version, "Absent", errNotServed)
				m.doubt(version)
			}
			pass(100 * time.Millisecond)
		}
		if diff := cmp.Diff([]string{source, "all"}, api.versions()); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		pass(catalogueRefresh)
		ask(source, "GitRepository", nil) // doubted
		ask("", "Absent", errNotServed)
		if n := len(api.versions()); n != 4 {
			t.Errorf("asked %d times", n)
		}
		pass(catalogueAge)
		api.discover(func(context.Context, string) error { return errors.New("away") })
		ask(source, "GitRepository", nil) // asked beside the use, and what is known stays
		ask(source, "GitRepository", nil)
		if n := len(api.versions()); n != 5 {
			t.Errorf("asked %d times", n)
		}
	})
}

// A tenant whose object is not there has what all tenants share asked for again. Fails when what is known of a kind does not count
// while the answer is awaited, and when what is not known is taken for an answer.
func TestWhatIsKnownCountsWhileTheAnswerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		m := newMapper(api)
		defer m.flights.Wait()
		const source = "source.toolkit.fluxcd.io/v1"
		for _, version := range []string{source, ""} {
			api.discover(nil)
			if _, err := m.resource(t.Context(), "team-a", version, "GitRepository"); err != nil {
				t.Fatal(err)
			}
			pass(catalogueRefresh)
			api.discover(func(ctx context.Context, _ string) error {
				<-ctx.Done()
				return ctx.Err()
			})
			m.doubt(version)
			for range 2 { // at the beginning of the question, and long after
				if _, err := m.resource(t.Context(), "team-a", version, "GitRepository"); err != nil {
					t.Errorf("%q: %v", version, err)
				}
				if _, err := m.resource(t.Context(), "team-a", version, "Absent"); !errors.Is(err, errNotAnswered) {
					t.Errorf("%q, a kind that is not known: %v", version, err)
				}
				pass(time.Second)
			}
		}
	})
}

// Tenants name versions. Fails when there is no bound.
func TestVersionsThatTenantsNameAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMapper(&fakeAPI{})
		defer m.flights.Wait()
		for i := range 10 * maxVersions {
			if _, err := m.resource(t.Context(), fmt.Sprint("team-", i%512), fmt.Sprint("a.example/v", i), "Widget"); !errors.Is(err, errNotServed) {
				t.Fatal(err)
			}
		}
		if n := len(m.versions); n != maxVersions {
			t.Errorf("%d versions are kept", n)
		}
	})
}

// Fails when versions that a tenant invents have those asked for again that the others' writes need.
func TestVersionsThatServeNothingAreForgottenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		m := newMapper(api)
		defer m.flights.Wait()
		ask := asking(t, m)
		for i := range 10 * maxVersions {
			ask("source.toolkit.fluxcd.io/v1", "GitRepository", nil)
			ask("v1", "ConfigMap", nil)
			if _, err := m.resource(t.Context(), fmt.Sprint("team-", i%512), fmt.Sprint("a.example/v", i), "Widget"); !errors.Is(err, errNotServed) {
				t.Fatal(err)
			}
		}
		asked := slices.DeleteFunc(api.versions(), func(v string) bool { return strings.HasPrefix(v, "a.example/") })
		if diff := cmp.Diff([]string{"source.toolkit.fluxcd.io/v1", "v1"}, asked); diff != "" {
			t.Errorf("asked beside what is invented (-want +got):\n%s", diff)
		}
	})
}
