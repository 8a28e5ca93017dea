package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// W5. Fails when a request is served by a right, or a token, that was revoked while its body was sent: with the four seconds for which a right
// is kept, and the ten that a body may take, fourteen seconds after it has ended.
func TestW5ARequestOfASlowBodyNeedsItsRightAtTheEnd(t *testing.T) {
	for path, right := range map[string]string{"deliveries/replay": "create deliveries/replay", "providers/slack/test": "create providers/test"} {
		for name, end := range map[string]func(*authority){
			"the right is revoked": func(a *authority) { a.revoke("jane", "team-a", right) },
			"the token is none":    func(a *authority) { a.mu.Lock(); defer a.mu.Unlock(); delete(a.tokens, "jane") },
		} {
			t.Run(path+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.authority.grant("jane", "team-a", right)
					client := w.serve()
					body, send := io.Pipe()
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api/v1/namespaces/team-a/"+path, body)
					must(t, err)
					r.Header.Set("Authorization", "Bearer jane")
					r.Header.Set("Content-Type", "application/json")
					go func() {
						<-time.After(time.Second)
						end(w.authority)
						<-time.After(8 * time.Second)
						_, _ = io.Copy(send, strings.NewReader(`{"provider":"slack"}`))
						_ = send.Close()
					}()
					resp, err := client.Do(r)
					must(t, err)
					defer resp.Body.Close()
					if n := len(w.store.replays) + len(w.store.tests); n > 0 || resp.StatusCode/100 != 4 {
						t.Errorf("answered %d, and %d requests were passed on", resp.StatusCode, n)
					}
				})
			})
		}
	}
}
