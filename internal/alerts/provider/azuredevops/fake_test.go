package azuredevops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"
)

// vendor answers as Azure DevOps documents its Git statuses, and refuses every other request.
type vendor struct {
	auth string // the Authorization that it accepts
	keep bool   // whether it keeps statuses between requests

	mu        sync.Mutex
	unordered []status // is listed instead, in an order of the server's
	statuses  []status // oldest first
	posts     int
}

var statusesPath = regexp.MustCompile(
	`^(?:/[^/]+){1,3}/_apis/git/repositories/[^/]+/commits/([0-9a-f]{40})/statuses$`)

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != v.auth {
		signIn(w, r)
		return
	}
	query := r.URL.Query()
	if !statusesPath.MatchString(r.URL.EscapedPath()) || query.Get("api-version") != "5.0" {
		reply(w, http.StatusNotFound, map[string]any{"message": "TF401019", "typeKey": "GitRepositoryNotFoundException"})
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		if query.Get("latestOnly") != "true" {
			reply(w, http.StatusBadRequest, nil)
			return
		}
		list := v.latest()
		if v.unordered != nil {
			list = v.unordered
		}
		reply(w, http.StatusOK, map[string]any{"count": len(list), "value": list})
	case http.MethodPost:
		s, err := readStatus(r)
		if err != nil {
			reply(w, http.StatusBadRequest, map[string]any{"message": "TF401000", "typeKey": "ArgumentException"})
			return
		}
		v.posts++
		s.ID = int64(v.posts)
		if v.keep {
			v.statuses = append(v.statuses, s)
		}
		reply(w, http.StatusCreated, s)
	default:
		reply(w, http.StatusMethodNotAllowed, nil)
	}
}

// latest returns the last status of each context, in the order of the contexts' first statuses.
func (v *vendor) latest() []status {
	list := []status{}
	for _, s := range v.statuses {
		if i := slices.IndexFunc(list, func(l status) bool { return l.Context == s.Context }); i >= 0 {
			list[i] = s
		} else {
			list = append(list, s)
		}
	}
	return list
}

// signIn answers invalid credentials: browsers get the page to sign in, with a status of success.
func signIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Tfs-Fedauthredirect") == "Suppress" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNonAuthoritativeInfo)
	_, _ = w.Write([]byte("<!DOCTYPE html><title>Sign In</title>"))
}

// readStatus reads a status as the API's schema has it.
func readStatus(r *http.Request) (status, error) {
	var s status
	if r.Header.Get("Content-Type") != "application/json" {
		return s, fmt.Errorf("content type")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	states := []string{"notSet", "pending", "succeeded", "failed", "error", "notApplicable"}
	longest := max(utf8.RuneCountInString(s.Context.Name), utf8.RuneCountInString(s.Context.Genre), utf8.RuneCountInString(s.Description))
	if s.Context.Name == "" || longest > 255 || !slices.Contains(states, s.State) {
		return s, fmt.Errorf("context.name and state are required")
	}
	return s, nil
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8; api-version=5.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
