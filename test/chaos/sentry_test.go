package chaos

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"notifier/test/env"
)

// sentryVendor is Sentry's envelope endpoint, which drops a repeated error, and the part of its web API that resolves
// issues. An issue is open under its fingerprint, with the tag of its object as its value.
func sentryVendor() *vendor {
	seen := map[string]bool{}
	return &vendor{providerType: "sentry", user: "key@", path: "/42", serve: func(v *vendor, r env.Received, body map[string]any) env.Answer {
		if r.Method == http.MethodPost {
			return takeEnvelope(v, r, seen)
		}
		query, err := url.ParseQuery(r.Query)
		switch {
		case err != nil || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
			return env.Answer{Status: http.StatusUnauthorized}
		case r.Method == http.MethodGet && r.Path == "/api/0/projects/" && query.Get("query") == "id:42":
			return env.Answer{Body: `[{"id":"42","organization":{"slug":"acme"}}]`}
		case r.Method != http.MethodPut || r.Path != "/api/0/organizations/acme/issues/" || query.Get("project") != "42":
			return env.Answer{Status: http.StatusNotFound}
		}
		object, searched := strings.CutPrefix(query.Get("query"), "is:unresolved flux_object:")
		if !searched || text(body, "status") != "resolved" {
			return env.Answer{Status: http.StatusBadRequest}
		}
		return resolveIssues(v, object)
	}}
}

func resolveIssues(v *vendor, object string) env.Answer {
	answer := env.Answer{Status: http.StatusNoContent}
	for issue, tag := range v.open {
		if string(tag) == object {
			v.set(issue, false, nil)
			answer = env.Answer{Body: `{"status":"resolved"}`}
		}
	}
	return answer
}

func takeEnvelope(v *vendor, r env.Received, seen map[string]bool) env.Answer {
	lines := strings.Split(string(r.Body), "\n")
	var item struct {
		ID          string            `json:"event_id"`
		Type        string            `json:"type"`
		Fingerprint []string          `json:"fingerprint"`
		Tags        map[string]string `json:"tags"`
	}
	envelope := r.Path == "/api/42/envelope/" && r.Header.Get("Authorization") == "" && len(lines) == 4
	if !envelope || json.Unmarshal([]byte(lines[2]), &item) != nil {
		return env.Answer{Status: http.StatusBadRequest}
	}
	if item.Type == "" && !seen[item.ID] {
		seen[item.ID] = true
		v.set(strings.Join(item.Fingerprint, " "), true, json.RawMessage(item.Tags["flux_object"]))
	}
	return env.Answer{Body: `{"id":"x"}`}
}
