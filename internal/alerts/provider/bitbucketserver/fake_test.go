package bitbucketserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"
)

// vendor answers as Bitbucket Data Center documents its builds, and refuses every other request.
type vendor struct {
	auth string // the Authorization that it accepts
	keep bool   // whether it keeps builds between requests

	mu     sync.Mutex
	builds map[string]map[string]any // by commit and key
	posts  int
}

var buildsPath = regexp.MustCompile(`^(?:/[a-z-]+)?/rest/api/latest/projects/[^/]+/repos/[^/]+/commits/([0-9a-f]{40})/builds$`)

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := buildsPath.FindStringSubmatch(r.URL.EscapedPath())
	switch {
	case r.Header.Get("Authorization") != v.auth:
		refuse(w, http.StatusUnauthorized)
		return
	case r.Header.Get("X-Atlassian-Token") != "no-check":
		refuse(w, http.StatusForbidden)
		return
	case m == nil:
		refuse(w, http.StatusNotFound)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		build, found := v.builds[m[1]+" "+r.URL.Query().Get("key")]
		if !found {
			refuse(w, http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(build)
	case http.MethodPost:
		build, err := readBuild(r)
		if err != nil {
			refuse(w, http.StatusBadRequest)
			return
		}
		v.posts++
		if v.keep {
			if v.builds == nil {
				v.builds = map[string]map[string]any{}
			}
			build["createdDate"], build["updatedDate"] = 1587533099278, 1587533699278
			v.builds[m[1]+" "+build["key"].(string)] = build
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed)
	}
}

// readBuild reads a build as the API's schema has it.
func readBuild(r *http.Request) (map[string]any, error) {
	if r.Header.Get("Content-Type") != "application/json" || r.URL.RawQuery != "" {
		return nil, fmt.Errorf("content type or query")
	}
	var build map[string]any
	if err := json.NewDecoder(r.Body).Decode(&build); err != nil {
		return nil, err
	}
	longest := map[string]int{"key": 255, "state": 255, "url": 450, "name": 255, "description": 255}
	for field, value := range build {
		text, ok := value.(string)
		if limit, known := longest[field]; !known || !ok || utf8.RuneCountInString(text) > limit {
			return nil, fmt.Errorf("%s: unknown, no string or too long", field)
		}
	}
	key, _ := build["key"].(string)
	link, _ := build["url"].(string)
	u, err := url.Parse(link)
	if key == "" || err != nil || u.Host == "" || u.User != nil ||
		!slices.Contains([]any{"SUCCESSFUL", "FAILED", "INPROGRESS", "CANCELLED", "UNKNOWN"}, build["state"]) {
		return nil, fmt.Errorf("key, state and url are required")
	}
	return build, nil
}

// refuse answers with an error in the API's form.
func refuse(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{
		"context": nil, "message": "refused", "exceptionName": "com.atlassian.bitbucket.Exception",
	}}})
}
