package receiver

import "testing"

// Fails when a field is not looked at, or read from another place.
func TestDockerHubNamesATagAndARepository(t *testing.T) {
	checkPayloads(t, "dockerhub", map[string]payloadCase{
		"what Docker Hub sends": {`{"callback_url":"https://registry.hub.docker.com/u/a/b/hook/2","push_data":{"pushed_at":1.417566161e+09,
			"images":[],"tag":"latest","pusher":"a"},"repository":{"repo_url":"https://registry.hub.docker.com/v2/repositories/a/b","star_count":0}}`, nil},
		"no tag":                {`{"push_data":{},"repository":{"repo_url":"u"}}`, refusedField},
		"an empty tag":          {`{"push_data":{"tag":""},"repository":{"repo_url":"u"}}`, refusedField},
		"no push":               {`{"repository":{"repo_url":"u"}}`, refusedField},
		"no repository":         {`{"push_data":{"tag":"latest"}}`, refusedField},
		"an empty repository":   {`{"push_data":{"tag":"latest"},"repository":{"repo_url":""}}`, refusedField},
		"a repository of null":  {`{"push_data":{"tag":"latest"},"repository":null}`, refusedField},
		"a tag of a number":     {`{"push_data":{"tag":1},"repository":{"repo_url":"u"}}`, refusedField},
		"a push of a list":      {`{"push_data":[],"repository":{"repo_url":"u"}}`, refusedField},
		"a repository's string": {`{"push_data":{"tag":"latest"},"repository":"u"}`, refusedField},
		"another sender's":      {payloads["quay"], refusedField},
	})
}

func FuzzDockerHub(f *testing.F) {
	fuzzParser(f, "dockerhub", `{"push_data":{"tag":1},"repository":null}`)
}
