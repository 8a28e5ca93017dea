package receiver

import (
	"net/http"
	"strings"
	"testing"
)

// Fails when a field is not looked at, and when the tags are asked for, which most notifications do not have.
func TestQuayNamesARepository(t *testing.T) {
	checkPayloads(t, "quay", map[string]payloadCase{
		"a push": {`{"name":"b","repository":"a/b","namespace":"a","docker_url":"quay.io/a/b",
			"homepage":"https://quay.io/repository/a/b","updated_tags":["latest"]}`, nil},
		"a mirror that was synchronised": {`{"docker_url":"quay.io/a/b","message":"done"}`, nil},
		"no tags":                        {`{"docker_url":"quay.io/a/b","updated_tags":[]}`, nil},
		"tags of null":                   {`{"docker_url":"quay.io/a/b","updated_tags":null}`, nil},
		"no repository":                  {`{"updated_tags":["latest"]}`, refusedField},
		"an empty repository":            {`{"docker_url":"","updated_tags":["latest"]}`, refusedField},
		"a repository of a number":       {`{"docker_url":1,"updated_tags":["latest"]}`, refusedField},
		"a tag that is not in a list":    {`{"docker_url":"quay.io/a/b","updated_tags":"latest"}`, refusedField},
		"a tag of a number":              {`{"docker_url":"quay.io/a/b","updated_tags":["latest",1]}`, refusedField},
		"a tag of null":                  {`{"docker_url":"quay.io/a/b","updated_tags":[null]}`, refusedField},
		"a list of lists":                {`{"docker_url":"quay.io/a/b","updated_tags":[[]]}`, refusedField},
		"another sender's":               {payloads["dockerhub"], refusedField},
	})
}

// Fails when the tags are kept: a list of a million empty strings takes 16 MB, and grows to it in dozens of steps.
func TestALongListOfTagsCostsNoMemory(t *testing.T) {
	body := []byte(`{"docker_url":"quay.io/a/b","updated_tags":[` + strings.Repeat(`"",`, 200_000) + `""]}`)
	allocations := testing.AllocsPerRun(1, func() {
		if _, err := (quay{}).Parse(t.Context(), http.Header{}, body); err != nil {
			t.Error(err)
		}
	})
	if allocations > 12 {
		t.Errorf("%v allocations for a body of %d bytes", allocations, len(body))
	}
}

func FuzzQuay(f *testing.F) { fuzzParser(f, "quay", `{"docker_url":"u","updated_tags":[null]}`) }
