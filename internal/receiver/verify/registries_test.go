package verify

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// Fails when a field is required, or its type is: fields only feed filters.
func TestDockerHubAndQuayTakeAnyJSON(t *testing.T) {
	cases := map[string]payloadCase{
		"what Docker Hub sends": {`{"callback_url":"https://registry.hub.docker.com/u/a/b/hook/2","push_data":{"pushed_at":1.417566161e+09,
			"images":[],"tag":"latest","pusher":"a"},"repository":{"repo_url":"https://registry.hub.docker.com/v2/repositories/a/b","star_count":0}}`, nil},
		"what Quay sends": {`{"name":"b","repository":"a/b","namespace":"a","docker_url":"quay.io/a/b",
			"homepage":"https://quay.io/repository/a/b","updated_tags":["latest"]}`, nil},
		"a mirror that was synchronised": {`{"docker_url":"quay.io/a/b","message":"done"}`, nil},
		"no tag":                         {`{"push_data":{},"repository":{"repo_url":"u"}}`, nil},
		"no repository":                  {`{"push_data":{"tag":"latest"}}`, nil},
		"no repository of Quay's":        {`{"updated_tags":["latest"]}`, nil},
		"a tag of null":                  {`{"push_data":{"tag":null}}`, nil},
		"a tag of another":               {`{"push_data":{"tag":1}}`, nil},
		"tags of another":                {`{"docker_url":"quay.io/a/b","updated_tags":{"latest":1}}`, nil},
		"no field":                       {`{}`, nil},
		"no JSON":                        {`docker_url=quay.io/a/b`, refusedJSON},
		"half of it":                     {`{"docker_url":"quay.io/a/b"`, refusedJSON},
		"nothing":                        {``, refusedJSON},
	}
	for _, kind := range []string{"dockerhub", "quay"} {
		t.Run(kind, func(t *testing.T) { checkPayloads(t, kind, cases) })
	}
}

// Fails when text behind the JSON of a registry that cannot sign has it refused, or reaches the filters. Flux reads the first value alone.
func TestTextBehindARegistrysJSONDoesNotCount(t *testing.T) {
	for _, kind := range []string{"dockerhub", "quay", "acr"} {
		for _, behind := range []string{"x", " \n}", "\x00", "\n--boundary--\r\n", "{", payloads[kind]} {
			c, err := parse(t, kind, http.Header{}, payloads[kind]+behind)
			if err != nil || string(bytes.TrimSpace(c.Document)) != payloads[kind] {
				t.Errorf("%s, %q behind it: document %q, %v", kind, behind, c.Document, err)
			}
		}
	}
	if c, err := parse(t, "acr", http.Header{}, `{"id":"1","action":"ping"}.`); err != nil || c.Event != (Event{Ping: true, Delivery: "1"}) {
		t.Errorf("a ping: %+v, %v", c.Event, err)
	}
}

// Fails when the payload is decoded, which no code needs: a list of a million empty strings takes 16 MB, and grows to it
// in dozens of steps.
func TestALongListOfTagsCostsNoMemory(t *testing.T) {
	body := []byte(`{"docker_url":"quay.io/a/b","updated_tags":[` + strings.Repeat(`"",`, 200_000) + `""]}`)
	allocations := testing.AllocsPerRun(1, func() {
		if _, err := unsigned.parse(http.Header{}, body); err != nil {
			t.Error(err)
		}
	})
	if allocations > 12 {
		t.Errorf("%v allocations for a body of %d bytes", allocations, len(body))
	}
}

// Docker Hub has the same scheme.
func FuzzQuay(f *testing.F) {
	fuzzParser(f, "quay", `{"docker_url":"u","updated_tags":[null]}`, `{"push_data":{"tag":1},"repository":null}`, payloads["dockerhub"])
}
