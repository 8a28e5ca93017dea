package verify

import (
	"net/http"
	"strings"
	"testing"
)

// Fails when a field is required, or its type is: fields only feed filters.
func TestQuayTakesAnyJSON(t *testing.T) {
	checkPayloads(t, "quay", map[string]payloadCase{
		"a push": {`{"name":"b","repository":"a/b","namespace":"a","docker_url":"quay.io/a/b",
			"homepage":"https://quay.io/repository/a/b","updated_tags":["latest"]}`, nil},
		"a mirror that was synchronised": {`{"docker_url":"quay.io/a/b","message":"done"}`, nil},
		"no repository":                  {`{"updated_tags":["latest"]}`, nil},
		"tags of another":                {`{"docker_url":"quay.io/a/b","updated_tags":{"latest":1}}`, nil},
		"no field":                       {`{}`, nil},
		"another sender's":               {payloads["dockerhub"], nil},
		"no JSON":                        {`docker_url=quay.io/a/b`, refusedJSON},
	})
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

func FuzzQuay(f *testing.F) { fuzzParser(f, "quay", `{"docker_url":"u","updated_tags":[null]}`) }
