package bitbucket

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// vendor answers as Bitbucket Cloud documents its commit statuses, and refuses every other request.
type vendor struct {
	auth string // the Authorization that it accepts
	keep bool   // whether it keeps statuses between requests

	mu     sync.Mutex
	builds map[string]map[string]any // by commit and key
	posts  int
}

var (
	commitPath = regexp.MustCompile(`^(?:/2\.0)?/repositories/[^/]+/[^/]+/commit/([0-9a-f]{40}|[0-9a-f]{64})/statuses/build(?:/([^/]+))?$`)
	buildKey   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != v.auth {
		refuse(w, http.StatusUnauthorized, "")
		return
	}
	m := commitPath.FindStringSubmatch(r.URL.EscapedPath())
	if m == nil || r.URL.RawQuery != "" {
		refuse(w, http.StatusNotFound, "Resource not found")
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && m[2] != "":
		build, found := v.builds[m[1]+" "+m[2]]
		if !found {
			refuse(w, http.StatusNotFound, "Build status not found")
			return
		}
		reply(w, http.StatusOK, build)
	case r.Method == http.MethodPost && m[2] == "":
		build, err := readBuild(r)
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		v.posts++
		build["type"], build["uuid"], build["created_on"] = "build", "{1}", "2026-03-04T05:06:07.1+00:00"
		if v.keep {
			if v.builds == nil {
				v.builds = map[string]map[string]any{}
			}
			v.builds[m[1]+" "+build["key"].(string)] = build
		}
		reply(w, http.StatusCreated, build)
	default:
		refuse(w, http.StatusMethodNotAllowed, "")
	}
}

// readBuild reads a build status as the API's schema has it.
func readBuild(r *http.Request) (map[string]any, error) {
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("content type")
	}
	var build map[string]any
	if err := json.NewDecoder(r.Body).Decode(&build); err != nil {
		return nil, err
	}
	longest := map[string]int{"key": 40, "state": 10, "url": 450, "name": 255, "description": 255}
	for field, value := range build {
		text, ok := value.(string)
		if limit, known := longest[field]; !known || !ok || utf8.RuneCountInString(text) > limit {
			return nil, fmt.Errorf("%s: extra keys not allowed, no string, or too long", field)
		}
	}
	state, _ := build["state"].(string)
	key, _ := build["key"].(string)
	link, _ := build["url"].(string)
	u, err := url.Parse(link)
	if !strings.Contains(" SUCCESSFUL FAILED INPROGRESS STOPPED ", " "+state+" ") || !buildKey.MatchString(key) ||
		err != nil || u.Scheme != "https" || u.Host == "" || strings.ContainsAny(link, "{} ") {
		return nil, fmt.Errorf("state, key and url: required")
	}
	return build, nil
}

// refuse answers with an error in the API's form.
func refuse(w http.ResponseWriter, status int, message string) {
	reply(w, status, map[string]any{"type": "error", "error": map[string]any{"message": message}})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
