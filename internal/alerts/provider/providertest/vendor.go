package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
)

// Vendor returns a handler like a vendor's strict server: check returns the fault of a request. A faulty request is refused with 400
// and fails the test; any other is answered 200 with the answer.
func Vendor(t *testing.T, answer string, check func(r *http.Request, body []byte) error) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, check(r, body)); err != nil {
			t.Errorf("the vendor refuses %s %s: %v\n%.2000s", r.Method, r.URL.Path, err, body)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, answer)
	}
}

// Says returns a handler that answers every request with a status and a body.
func Says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Decode decodes one JSON value into the vendor's schema and refuses unknown fields.
func Decode(body []byte, schema any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(schema); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// worstMessage and worstEntries exceed the limits of every destination. The largest limits are 64 KiB and 100 parts of a message.
const (
	worstMessage = 128 << 10 // bytes
	worstEntries = 150
)

// Worst returns notifications with more characters of each kind than any destination accepts, and one of blanks, for tests of a
// destination's limits.
func Worst(t *testing.T) map[string]provider.Notification {
	t.Helper()
	all := map[string]provider.Notification{}
	for name, s := range map[string]string{
		"letters": "x", "entities": "&", "controls": "\x01\x00", "quotes": `"`, "emoji": "😀", "bytes": "\xff", "links": "](",
		"markup": "*_[]<>`~", "mentions": "@",
		"URLs": "https://a.test/_ ",
	} {
		n := Notifications(t)["error"]
		long := strings.Repeat(s, 253)
		n.Event.InvolvedObject.Kind, n.Event.InvolvedObject.Name, n.Event.InvolvedObject.Namespace = long, long, long
		n.Event.Message, n.Event.ReportingController, n.Event.Reason = strings.Repeat(s, worstMessage/len(s)), long, long
		n.Event.Metadata = map[string]string{}
		key, value := strings.Repeat(s, 500), strings.Repeat(s, 2000)
		for i := range worstEntries {
			n.Event.Metadata[key+fmt.Sprint(i)] = value
		}
		all[name] = n
		for key := range n.Event.Metadata {
			n.Authored = append(n.Authored, key)
		}
		all[name+" of the author"] = n
	}
	blank := Notifications(t)["info"]
	blank.Event.Message, blank.Event.ReportingController, blank.Event.Reason = " \n", " ", " "
	blank.Event.Metadata = map[string]string{" ": "", "a": " "}
	all["blanks"] = blank
	return all
}

// SendWorst sends each of the notifications of Worst, which must succeed.
func SendWorst(t *testing.T, s provider.Sender) {
	t.Helper()
	for name, n := range Worst(t) {
		if err := s.Send(t.Context(), n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// DecodeRequest is Decode of a request's body, which must be JSON in UTF-8.
func DecodeRequest(r *http.Request, schema any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.Header.Get("Content-Type") != "application/json" || !utf8.Valid(body) {
		return errors.New("no JSON")
	}
	return Decode(body, schema)
}
