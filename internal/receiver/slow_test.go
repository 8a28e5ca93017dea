package receiver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/receiver/server"
)

// Fails when a sender whose body has not arrived in time is told that it is wrong, or when a body that was cut off is called slow. The
// path is that of one Receiver or of two, and the body is kept or not.
func TestASlowBodyIs408(t *testing.T) {
	alone, kept := newHook(t, "team-a/alone"), newHook(t, "team-a/kept", withType(t, "quay"))
	first, second := newHook(t, "payments/main"), newHook(t, "ments/mainpay")
	w := newWebhooks(t, newTable(t, unlimited(), alone, kept, first, second), &recorder{})
	url, _ := serveReal(t, w, func(o *server.Options) { o.HeaderTimeout, o.ReadTimeout = 100*time.Millisecond, 200*time.Millisecond })
	for _, path := range []string{alone.Path, kept.Path, first.Path} {
		for cutOff, want := range map[bool]string{false: "408 body was not sent in time", true: "400 body could not be read"} {
			if got := answerTo(t, strings.TrimPrefix(url, "http://"), path, cutOff); got != want {
				t.Errorf("%s, cut off %t: answered %s, want %s", path, cutOff, got, want)
			}
		}
	}
}

// answerTo sends the first byte of a body, and no more, with or without the end of the connection. It returns the status and the reason.
func answerTo(t *testing.T, address, path string, cutOff bool) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"+
		"X-Hub-Signature-256: sha256=%064d\r\nContent-Length: 2\r\n\r\n{", path, 0); err != nil {
		t.Fatal(err)
	}
	if cutOff {
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSuffix(strings.TrimPrefix(string(body), `{"reason":"`), `"}`))
}
