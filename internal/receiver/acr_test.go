package receiver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Fails when a field is not looked at, and when a tag is asked for, which a deletion by digest does not have.
func TestACRNamesAnActionAndARepository(t *testing.T) {
	checkPayloads(t, "acr", map[string]payloadCase{
		"a push": {`{"id":"1","timestamp":"2017-11-17T16:52:01.343145347Z","action":"push","target":{"mediaType":"m","size":524,
			"digest":"sha256:80","length":524,"repository":"hello-world","tag":"v1"},"request":{"id":"3","host":"r.azurecr.io","method":"PUT"}}`, nil},
		"a deletion":               {`{"id":"1","action":"delete","target":{"digest":"sha256:80","repository":"hello-world"}}`, nil},
		"a chart":                  {`{"id":"1","action":"chart_push","target":{"repository":"repo","tag":"w-1.tgz","name":"w"}}`, nil},
		"a ping":                   {`{"id":"1","action":"ping"}`, nil},
		"a ping with a target":     {`{"id":"1","action":"ping","target":{"repository":""}}`, nil},
		"no action":                {`{"target":{"repository":"r","tag":"v1"}}`, refusedField},
		"an empty action":          {`{"action":"","target":{"repository":"r","tag":"v1"}}`, refusedField},
		"no target":                {`{"action":"push"}`, refusedField},
		"an empty repository":      {`{"action":"push","target":{"repository":"","tag":"v1"}}`, refusedField},
		"an action of a number":    {`{"action":1,"target":{"repository":"r","tag":"v1"}}`, refusedField},
		"a tag of a number":        {`{"action":"push","target":{"repository":"r","tag":1}}`, refusedField},
		"a target of a list":       {`{"action":"push","target":[{"repository":"r"}]}`, refusedField},
		"an ID of a number":        {`{"id":1,"action":"ping"}`, refusedField},
		"another registry's":       {payloads["dockerhub"], refusedField},
		"a ping in capitals is no": {`{"action":"PING"}`, refusedField},
	})
}

// Fails when a ping triggers or is refused, and when the ID of a delivery is lost.
func TestACRPingIsAnsweredAndTriggersNothing(t *testing.T) {
	hook := newHook(t, "team/app", withType(t, "acr"), withEvents("push"))
	for body, want := range map[string]struct {
		answer   string
		triggers int
	}{
		`{"id":"1","action":"ping"}`: {`{"accepted":true,"ping":true}`, 0},
		payloads["acr"]:              {`{"accepted":true}`, 1},
	} {
		bus := &recorder{}
		r := httptest.NewRequest(http.MethodPost, hook.Path, strings.NewReader(body))
		resp := do(newWebhooks(t, newTable(t, unlimited(), hook), bus), r)
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusOK || got != want.answer || bus.count() != want.triggers {
			t.Errorf("%s: got %d %s and %d triggers, want %+v", body, resp.StatusCode, got, bus.count(), want)
		}
	}
	if c, err := parse(t, "acr", http.Header{}, payloads["acr"]); err != nil || c.Event.Delivery != "cb8c3971" {
		t.Errorf("the delivery is %q, %v", c.Event.Delivery, err)
	}
}

func FuzzACR(f *testing.F) {
	fuzzParser(f, "acr", `{"id":"1","action":"ping"}`, `{"action":"push","target":null}`)
}
