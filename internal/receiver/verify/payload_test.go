package verify

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/receiver/answer"
)

// payloads has one sender's body for each type that authenticates by its path alone and reads the body.
var payloads = map[string]string{
	"acr":       `{"id":"cb8c3971","action":"push","target":{"repository":"hello-world","tag":"v1"}}`,
	"cdevents":  changeMerged,
	"dockerhub": `{"push_data":{"tag":"latest"},"repository":{"repo_url":"https://hub.docker.com/r/acme/app"}}`,
	"quay":      `{"docker_url":"quay.io/acme/app","updated_tags":["latest","v1"]}`,
}

// parse runs one authentic request through a Verifier as the handler does.
func parse(t testing.TB, kind string, h http.Header, body string) (Content, error) {
	t.Helper()
	v, err := New(kind, Credentials{Token: []byte(token)})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(v, h, body); err != nil {
		t.Fatalf("%s, which proves nothing but its path, refused: %v", kind, err)
	}
	return v.Content(t.Context(), h, []byte(body))
}

// Fails when a type does not give the body to filters, when it requires a content type, and when it keeps no
// body, so that bodies are not read at all.
func TestATypeThatReadsItsPayloadGivesItToFilters(t *testing.T) {
	for kind, body := range payloads {
		for _, contentType := range []string{"application/json", "application/json; charset=utf-8", ""} {
			c, err := parse(t, kind, http.Header{"Content-Type": {contentType}}, body)
			if err != nil || string(c.Document) != body || c.Event.Ping {
				t.Errorf("%s, content type %q: got %+v, %v", kind, contentType, c, err)
			}
		}
	}
}

// Fails when a type reads its body with a Decoder, which stops after the first value, or when it ignores errors or
// quotes them. Registries that cannot sign are read to the end of the first value, as Flux reads them.
func TestAPayloadIsOneJSONValueAndNothingElse(t *testing.T) {
	for kind, body := range payloads {
		var behind error = refusedJSON
		if kind == "dockerhub" || kind == "quay" || kind == "acr" {
			behind = nil
		}
		for name, tc := range map[string]struct {
			body string
			want error
		}{
			"nothing":             {"", refusedJSON},
			"a blank":             {" \n", refusedJSON},
			"half of it":          {body[:len(body)-1], refusedJSON},
			"something behind it": {body + "x", behind},
			"two of them":         {body + body, behind},
			"a form":              {"payload=" + body, refusedJSON},
			"a zero byte":         {body + "\x00", behind},
			"deep nesting":        {strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001), refusedJSON},
			"brackets alone":      {strings.Repeat("[", maxCDEvent), refusedJSON},
		} {
			if _, err := parse(t, kind, http.Header{}, tc.body); !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: got %v, want %v", kind, name, err, tc.want)
			}
		}
		for _, other := range []string{"null", "{}", "[" + body + "]", `"body"`} {
			if _, err := parse(t, kind, http.Header{}, other); (err == nil) != (kind != "cdevents") {
				t.Errorf("%s, %s: %v", kind, other, err)
			}
		}
		if _, err := parse(t, kind, http.Header{}, " "+body+"\n"); err != nil {
			t.Errorf("%s between blanks: %v", kind, err)
		}
	}
}

// payloadCase is a body and the error for it.
type payloadCase struct {
	body string
	want error
}

func checkPayloads(t *testing.T, kind string, cases map[string]payloadCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, kind, http.Header{}, tc.body); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// fuzzParser checks that no body makes a type panic, fail with an error other than a Refusal, or give filters invalid
// JSON.
func fuzzParser(f *testing.F, kind string, seeds ...string) {
	for _, seed := range append(seeds, payloads[kind], "", "null", "[]", `{"a":1}x`, "\xff", strings.Repeat("[", 100)) {
		f.Add(seed, "", "application/json")
		f.Add(seed, "dev.cdevents.change.merged.0.2.0", "application/cloudevents+json")
	}
	v, err := New(kind, Credentials{Token: []byte(token)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, eventType, contentType string) {
		c, err := v.Content(t.Context(), http.Header{"Ce-Type": {eventType}, "Content-Type": {contentType}}, []byte(body))
		if _, ok := errors.AsType[answer.Refusal](err); err != nil && !ok {
			t.Fatalf("%v is no Refusal", err)
		}
		if err == nil && !json.Valid(c.Document) {
			t.Fatalf("%q was accepted", body)
		}
	})
}
