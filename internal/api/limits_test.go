package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// T6. Fails when a user's concurrent reads have no bound, when they take the places of others, or when a wait in vain does not end
// with 429.
func TestT6AUserReadsAFewThingsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.authority.grant("joe", "team-a", reads...)
		w.store.entered, w.store.hold = make(chan string, 100), make(chan struct{})
		codes := make(chan int, 100)
		var asking sync.WaitGroup
		ask := func(user string, limit int) {
			asking.Go(func() {
				codes <- w.ask(user, "GET", fmt.Sprint("/v1/namespaces/team-a/deliveries?limit=", limit), "").Code
			})
		}
		for i := range 20 {
			ask("jane", i+1)
		}
		synctest.Wait()
		if n := len(w.store.entered); n != userReads {
			t.Errorf("%d reads of a user at a time", n)
		}
		if n := len(codes); n != 20-userLine {
			t.Errorf("%d of 20 were refused at once", n)
		}
		ask("joe", 1)
		synctest.Wait()
		if n := len(w.store.entered); n != userReads+1 {
			t.Error("another user waits for the first")
		}
		<-time.After(waitTimeout)
		synctest.Wait()
		for range 20 - userReads {
			if code := <-codes; code != http.StatusTooManyRequests {
				t.Errorf("who waited in vain was told %d", code)
			}
		}
		close(w.store.hold)
		asking.Wait()
		if n := w.handler.service.limits.lines.Len(); n != 0 {
			t.Errorf("%d users are remembered of whom nothing waits", n)
		}
	})
}

// T6. Fails when the reading time of users has no bound, or when a user with many reads delays another for more than a turn. Also
// fails when a user with no time left gets no Retry-After.
func TestT6ReadingHasAShareOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cost = 10 * time.Millisecond
		w := newWorld(t)
		w.store.takes = cost
		var asking sync.WaitGroup
		codes := make(chan int, 100_000)
		ask := func(user string) int {
			return w.ask(user, "GET", "/v1/namespaces/team-a/deliveries", "").Code
		}
		const users, lasts = 20, 20 * time.Second
		end := time.Now().Add(lasts)
		for i := range users {
			user := fmt.Sprint("user-", i)
			w.authority.grant(user, "team-a", reads...)
			asking.Go(func() {
				for time.Now().Before(end) {
					codes <- ask(user)
					<-time.After(20 * time.Millisecond)
				}
			})
		}
		w.authority.grant("jane", "team-a", reads...)
		<-time.After(5 * time.Second)
		begin := time.Now()
		if code, took := ask("jane"), time.Since(begin); code != http.StatusOK || took > users*cost*time.Duration(readWindow/readShare)+time.Second/4 {
			t.Errorf("another user is answered %d after %s", code, took)
		}
		asking.Wait()
		close(codes)
		read := time.Duration(0)
		for code := range codes {
			if code == http.StatusOK {
				read += cost
			}
		}
		if share := lasts / time.Duration(readWindow/readShare); read > share+share/4 || read < share/2 {
			t.Errorf("all together read for %s of %s, want %s", read, lasts, share)
		}
		w.store.takes = time.Second
		first, second := ask("jane"), w.ask("jane", "GET", "/v1/namespaces/team-a/deliveries", "")
		if first != http.StatusOK || second.Code != http.StatusTooManyRequests || second.Header().Get("Retry-After") == "" {
			t.Errorf("a user who reads for long is answered %d, then %d", first, second.Code)
		}
		<-time.After(15 * time.Second) // until the time is saved up again
		w.store.takes = 4 * time.Second
		ask("jane")
		got := w.ask("jane", "GET", "/v1/namespaces/team-a/deliveries", "")
		if after := got.Header().Get("Retry-After"); after == "1" || !strings.Contains(got.Body.String(), "wait "+after+" seconds") {
			t.Errorf("Retry-After is %s, and the text %s", after, got.Body)
		}
	})
}

// Fails when a user who read once, while the store stood still, has to wait for longer than the refusal says, or when reads that are not
// answered cost nothing: neither those of a user who asks again and again, nor those of one who leaves.
func TestAReadThatTheStoreDoesNotAnswerCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path, stands = "/v1/namespaces/team-a/deliveries", 5 * time.Second
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.takes, w.store.err = stands, errors.New("the server does not answer")
		if got := w.ask("jane", "GET", path, ""); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "2" {
			t.Fatalf("answered %d, Retry-After %s", got.Code, got.Header().Get("Retry-After"))
		}
		<-time.After(2 * time.Second)
		w.store.takes, w.store.err = 0, nil
		if got := w.ask("jane", "GET", path, ""); got.Code != http.StatusOK {
			t.Errorf("after the Retry-After answered %d: %s", got.Code, got.Body)
		}

		w.store.takes, w.store.err = stands, errors.New("the server does not answer")
		asked := 0
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if w.ask("jane", "GET", path, "").Code == http.StatusServiceUnavailable {
				asked++
			}
			<-time.After(time.Second)
		}
		if most := int(time.Minute / (userTime * readWindow * 2 / readShare)); asked > most+2 {
			t.Errorf("%d reads in a minute, want %d", asked, most)
		}

		<-time.After(time.Minute)
		w.store.takes, w.store.hold = 0, make(chan struct{})
		ctx, leave := context.WithTimeout(t.Context(), stands)
		defer leave()
		r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		r.Header.Set("Authorization", "Bearer jane")
		w.handler.ServeHTTP(httptest.NewRecorder(), r)
		if got := w.ask("jane", "GET", path, ""); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "1" {
			t.Errorf("a user who left is answered %d, Retry-After %s", got.Code, got.Header().Get("Retry-After"))
		}
	})
}

// wantBurst has a user ask three times as often at once as a user may, and wants a third of the answers to have the status and the others 429.
func (w *world) wantBurst(status int, user, path string) {
	w.Helper()
	codes := map[int]int{}
	for range 3 * userBurst {
		codes[w.ask(user, "GET", path, "").Code]++
	}
	if codes[status] != userBurst || codes[http.StatusTooManyRequests] != 2*userBurst {
		w.Errorf("answered %v", codes)
	}
}

// T6. Fails when one user's requests a second have no bound, or count for another's.
func TestT6AUsersRequestsAreBoundedInRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time does not advance in the bubble
		w := newWorld(t)
		w.authority.grant("jane", "team-a", append(reads, writes...)...)
		w.authority.grant("joe", "team-a", reads...)
		w.wantBurst(http.StatusOK, "jane", "/v1/namespaces/team-a/webhooks")
		got := w.ask("jane", "GET", "/v1/namespaces/team-a/webhooks", "")
		if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "1" {
			t.Errorf("%d says %v", got.Code, got.Header())
		}
		w.want(http.StatusOK, "joe", "GET", "/v1/namespaces/team-a/webhooks", nil)
	})
}

// T6. Fails when a user can cause access reviews without a bound, by any route: all users share their budget.
func TestT6AUserWithoutRightsAsksFewQuestions(t *testing.T) {
	for _, path := range []string{"health", "deliveries", "deliveries/aa", "events/aa/explain", "deliveries?watch=1"} {
		synctest.Test(t, func(t *testing.T) { // time does not advance in the bubble
			w := newWorld(t)
			w.authority.grant("jane", "team-a")
			codes := map[int]int{}
			for i := range 3 * userBurst {
				codes[w.ask("jane", "GET", fmt.Sprintf("/v1/namespaces/team-%d/%s", i, path), "").Code]++
			}
			if n := w.authority.questions(); n > 2*userBurst || codes[http.StatusForbidden] != userBurst {
				t.Errorf("%s: %d questions, answered %v", path, n, codes)
			}
		})
	}
}

// body is the body of a request. It counts the bodies that were read.
type body struct {
	*strings.Reader
	begun sync.Once
	read  *atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	b.begun.Do(func() { b.read.Add(1) })
	return b.Reader.Read(p)
}

// T6. To decode a body of 128 KiB takes milliseconds and megabytes. Fails when a user can have that done at any rate, as long as the requests
// are refused for their form, or without a right to what is requested.
func TestT6BodiesOfRequestsThatAreRefusedAreBoundedInRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", writes...)
		w.authority.grant("joe", "team-a", reads...)
		for _, path := range []string{"deliveries/replay", "providers/chat/test"} {
			for user, most := range map[string]int64{"jane": askBurst, "joe": 0} {
				<-time.After(time.Minute) // the budgets are full again
				var read atomic.Int64
				for range 2 * userBurst {
					r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/namespaces/team-a/"+path, &body{Reader: strings.NewReader(`{"ids":7`), read: &read})
					r.Header.Set("Authorization", "Bearer "+user)
					r.Header.Set("Content-Type", "application/json")
					w.handler.ServeHTTP(httptest.NewRecorder(), r)
				}
				if n := read.Load(); n > most || n < most/2 {
					t.Errorf("%d bodies of %s to %s are read, want %d", n, user, path, most)
				}
			}
		}
	})
}

// T6. Fails when requests that are refused for their form do not count, or count for another user.
func TestT6RequestsThatAreRefusedForTheirFormCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time does not advance in the bubble
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.authority.grant("joe", "team-a", reads...)
		w.wantBurst(http.StatusBadRequest, "jane", "/v1/namespaces/team-a/events?no=such")
		w.want(http.StatusBadRequest, "joe", "GET", "/v1/namespaces/team-a/events?no=such", nil)
	})
}

// T6. Fails when a user can have messages sent at the rate of reads.
func TestT6TestsAndReplaysAreFewerThanReads(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", writes...)
	for range 2 * askBurst {
		w.ask("jane", "POST", "/v1/namespaces/team-a/providers/slack/test", "")
	}
	if n := len(w.store.tests); n < askBurst || n > askBurst+1 {
		t.Errorf("%d of %d tests were asked for", n, 2*askBurst)
	}
}

// Fails when unread answers take memory without a bound.
func TestAnswersThatWaitForTheirReadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.deliveries = []view.Delivery{{Failure: strings.Repeat("x", 3<<20)}}
		client := w.serve()
		var codes []int
		for range 4 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/v1/namespaces/team-a/deliveries", http.NoBody)
			must(t, err)
			r.Header.Set("Authorization", "Bearer jane")
			resp, err := client.Do(r) // the test reads only the beginning
			must(t, err)
			t.Cleanup(func() { _ = resp.Body.Close() })
			codes = append(codes, resp.StatusCode)
		}
		if codes[0] != http.StatusOK || codes[1] != http.StatusOK || codes[3] != http.StatusTooManyRequests {
			t.Errorf("answered %v", codes)
		}
	})
}

// T6. Fails when the searches for namespaces of one user that wait for each other have no bound: they would take all connections of a proxy
// in front, and so those of its other users. Also fails when they do not wait, and take all concurrent checks.
func TestT6SearchesForNamespacesOfOneUserWaitInALineOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.namespaces = []string{"team-a"}
		const asked = 50
		for i := range asked {
			w.authority.grant(fmt.Sprint("team-a~account-", i), "team-a", reads...) // the accounts of a namespace are one user
		}
		w.authority.takes = time.Second
		codes := make(chan int, asked)
		for i := range asked {
			go func() { codes <- w.ask(fmt.Sprint("team-a~account-", i), "GET", "/v1/namespaces", "").Code }()
		}
		<-time.After(1500 * time.Millisecond) // the tokens are reviewed, and the first search is under way
		synctest.Wait()
		if n := len(codes); n != asked-userLine {
			t.Errorf("%d of %d are refused at once, want %d", n, asked, asked-userLine)
		}
		<-time.After(time.Second) // the first answer about a right has come
		synctest.Wait()
		if n := w.authority.questions(); n != 1 {
			t.Errorf("%d searches of one user at a time", n)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		answered := map[int]int{}
		for range asked {
			answered[<-codes]++
		}
		if answered[http.StatusOK] != userLine || answered[http.StatusTooManyRequests] != asked-userLine {
			t.Errorf("answered %v", answered)
		}
	})
}

// Fails when a user of a cluster whose authorizer is slow is told nothing of the namespaces that were looked at in time.
func TestTheListOfNamespacesHasThoseThatWereLookedAtInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range maxChecked {
			w.store.namespaces = append(w.store.namespaces, fmt.Sprintf("team-%03d", i))
		}
		w.authority.grant("jane", "team-000", reads...)
		w.authority.grant("jane", "team-499", reads...)
		w.authority.takes = 200 * time.Millisecond
		var got view.Namespaces
		began := time.Now()
		w.want(http.StatusOK, "jane", "GET", "/v1/namespaces", &got)
		if fmt.Sprint(got.Items) != "[team-000]" || !got.Incomplete || time.Since(began) > checkTimeout+time.Second {
			t.Errorf("after %s: %+v", time.Since(began), got)
		}
	})
}
