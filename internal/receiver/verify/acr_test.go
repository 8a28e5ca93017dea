package verify

import (
	"net/http"
	"testing"
)

// Fails when a field other than the id and the ping is required, or its type is. The other fields only feed filters.
func TestACRTakesAnyJSON(t *testing.T) {
	checkPayloads(t, "acr", map[string]payloadCase{
		"a push": {`{"id":"1","timestamp":"2017-11-17T16:52:01.343145347Z","action":"push","target":{"mediaType":"m","size":524,
			"digest":"sha256:80","length":524,"repository":"hello-world","tag":"v1"},"request":{"id":"3","host":"r.azurecr.io","method":"PUT"}}`, nil},
		"a deletion":           {`{"id":"1","action":"delete","target":{"digest":"sha256:80","repository":"hello-world"}}`, nil},
		"a ping":               {`{"id":"1","action":"ping"}`, nil},
		"no action":            {`{"target":{"repository":"r","tag":"v1"}}`, nil},
		"no target":            {`{"action":"push"}`, nil},
		"an action of another": {`{"action":1,"target":{"repository":"r","tag":1}}`, nil},
		"an id of another":     {`{"id":1,"action":"push"}`, nil},
		"no field":             {`{}`, nil},
		"another registry's":   {payloads["dockerhub"], nil},
		"no JSON":              {`action=push`, refusedJSON},
	})
	for body, want := range map[string]Event{
		payloads["acr"]:              {Delivery: "cb8c3971"},
		`{"id":1,"action":"ping"}`:   {Ping: true},
		`{"action":1,"id":"after"}`:  {Delivery: "after"},
		`{"action":"PING","id":"c"}`: {Delivery: "c"},
		`[{"action":"ping"}]`:        {},
	} {
		if c, err := parse(t, "acr", http.Header{}, body); err != nil || c.Event != want {
			t.Errorf("%s: got %+v, %v, want %+v", body, c.Event, err, want)
		}
	}
}

func FuzzACR(f *testing.F) {
	fuzzParser(f, "acr", `{"id":"1","action":"ping"}`, `{"action":"push","target":null}`)
}
