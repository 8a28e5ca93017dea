package providertest

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

//go:embed testdata
var events embed.FS

// DeliveryID is the ID of every notification of the kit.
const DeliveryID = "0123456789abcdef0123456789abcdef"

// AlertUID is the UID of the Alert of every notification of the kit.
const AlertUID = "5a3f1d3e-8a43-4bd5-9d0c-6a2f6f1f5c11"

// Notifications returns the notifications that every type is tested with, by name. The caller may change the map and its metadata.
func Notifications(t *testing.T) map[string]provider.Notification {
	t.Helper()
	all, err := decoded()
	if err != nil {
		t.Fatal(err)
	}
	all = maps.Clone(all)
	for name, n := range all {
		n.Event.Metadata = maps.Clone(n.Event.Metadata)
		all[name] = n
	}
	return all
}

// decoded decodes the events once: the contract takes an event before each of its hundreds of sends.
var decoded = sync.OnceValues(func() (map[string]provider.Notification, error) {
	all := map[string]provider.Notification{}
	files, err := fs.Glob(events, "testdata/*.json")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		raw, err := events.ReadFile(f)
		if err != nil {
			return nil, err
		}
		e, err := event.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = provider.Notification{Event: e, DeliveryID: DeliveryID, Alert: "on-call", AlertUID: AlertUID}
	}
	long := all["info"]
	long.Event.Message = strings.Repeat("a line of the log, with <tags> & more\n", 1000)
	all["long"] = long
	// empty is an event with only an object, the least that an event must have.
	all["empty"] = provider.Notification{
		Event: event.Event{InvolvedObject: long.Event.InvolvedObject}, DeliveryID: DeliveryID, Alert: "on-call", AlertUID: AlertUID,
	}
	return all, nil
})

// Golden sends every notification of the kit and compares the requests with testdata/<name>/<notification>.golden of the calling
// package. With -update it writes the files. Each notification is sent several times, since an order taken from a map would differ.
func Golden(t *testing.T, name string, sender provider.Sender, sink *Sink) {
	t.Helper()
	for what, n := range Notifications(t) {
		t.Run(what, func(t *testing.T) {
			var got string
			for range 5 {
				before := len(sink.Requests())
				if err := sender.Send(t.Context(), n); err != nil {
					t.Fatalf("send: %v", err)
				}
				previous := got
				if got = renderAll(sink.Requests()[before:]); previous != "" && previous != got {
					t.Fatalf("two sends of one notification differ:\n%s", cmp.Diff(previous, got))
				}
			}
			file := filepath.Join("testdata", name, what+".golden")
			if *update {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("request differs from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// unsteady are headers that are independent of a type or differ between runs.
var unsteady = []string{"Accept-Encoding", "Content-Length", "Proxy-Connection", "Proxy-Authorization"}

// renderAll returns the requests of one send as text.
func renderAll(requests []Request) string {
	rendered := make([]string, len(requests))
	for i, r := range requests {
		rendered[i] = render(r)
	}
	return strings.Join(rendered, "\n")
}

// render returns a request as text for a golden file, with its JSON indented.
func render(r Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Method, r.Path)
	if len(r.Query) > 0 {
		b.WriteString("?" + r.Query.Encode())
	}
	b.WriteByte('\n')
	h := r.Header.Clone()
	for _, name := range unsteady {
		h.Del(name)
	}
	_ = h.Write(crlf{&b})
	b.WriteByte('\n')
	if h.Get("Content-Type") == "application/x-www-form-urlencoded" {
		renderForm(&b, r.Body)
	} else {
		b.WriteString(indent(r.Body))
	}
	return b.String()
}

func renderForm(b *strings.Builder, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		b.Write(body)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		fmt.Fprintf(b, "%s = %s\n", name, indent([]byte(form.Get(name))))
	}
}

func indent(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return string(body)
	}
	out.WriteByte('\n')
	return out.String()
}

// crlf replaces the line ends of http.Header.Write by plain ones.
type crlf struct{ b *strings.Builder }

func (c crlf) Write(p []byte) (int, error) {
	c.b.WriteString(strings.ReplaceAll(string(p), "\r\n", "\n"))
	return len(p), nil
}
