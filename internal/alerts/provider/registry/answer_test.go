package registry_test

import (
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/alloctest"
	"notifier/internal/event"
)

// Fails when reading a destination's answer takes many times its length. A tenant chooses the answer, and several are read at once.
func TestT6AnAnswerCostsLittleMoreThanItsLength(t *testing.T) {
	const most = 64 << 20 // reading 4 MiB of unknown length makes a third of it
	n := provider.Notification{DeliveryID: "d", Event: event.Event{
		Severity: event.SeverityError, Reason: "BuildFailed", InvolvedObject: event.ObjectReference{Kind: "K", Namespace: "n", Name: "o", UID: "1"},
		Metadata: map[string]string{"commit": strings.Repeat("a", 40), provider.ChangeRequestKey: "1"},
	}}
	nothings := strings.Repeat("{},", 1_300_000) + "{}"
	for name, answer := range map[string]string{
		"a list": "[" + nothings + "]", "a list within": `{"statuses":[` + nothings + `],"value":[` + nothings[:1<<19] + `{}]}`,
		"a list again and again": "{" + strings.Repeat(`"value":[{}],`, 160_000) + `"value":[]}`,
		"a short list":           "[" + nothings[:999_999] + "{}]", "a short list within": `{"value":[` + nothings[:1_999_998] + `{}]}`,
	} {
		body := []byte(answer)
		handler := func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method != http.MethodGet:
			case strings.HasSuffix(r.URL.Path, "/user"):
				_, _ = w.Write([]byte(`{"login":"me","username":"me"}`))
			default:
				_, _ = w.Write(body)
			}
		}
		for _, typ := range types {
			if noHTTP[typ] != "" {
				continue
			}
			cfg, _ := lead(t, typ, handler)
			s, err := registry.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			made := alloctest.Bytes(func() { _ = s.Send(t.Context(), n) })
			_ = s.Close()
			if made > most {
				t.Errorf("%s, %s: %d MiB are made of an answer of %d KiB", typ, name, made>>20, len(answer)>>10)
			}
		}
	}
}
