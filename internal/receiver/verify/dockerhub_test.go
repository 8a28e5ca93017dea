package verify

import "testing"

// Fails when a field is required, or its type is: fields only feed filters.
func TestDockerHubTakesAnyJSON(t *testing.T) {
	checkPayloads(t, "dockerhub", map[string]payloadCase{
		"what Docker Hub sends": {`{"callback_url":"https://registry.hub.docker.com/u/a/b/hook/2","push_data":{"pushed_at":1.417566161e+09,
			"images":[],"tag":"latest","pusher":"a"},"repository":{"repo_url":"https://registry.hub.docker.com/v2/repositories/a/b","star_count":0}}`, nil},
		"no tag":           {`{"push_data":{},"repository":{"repo_url":"u"}}`, nil},
		"no repository":    {`{"push_data":{"tag":"latest"}}`, nil},
		"a tag of null":    {`{"push_data":{"tag":null}}`, nil},
		"a tag of another": {`{"push_data":{"tag":1}}`, nil},
		"no field":         {`{}`, nil},
		"another sender's": {payloads["quay"], nil},
		"no JSON":          {`tag=latest`, refusedJSON},
	})
}

func FuzzDockerHub(f *testing.F) {
	fuzzParser(f, "dockerhub", `{"push_data":{"tag":1},"repository":null}`)
}
