package gitea

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"notifier/internal/alerts/provider/githost"
)

// vendor answers as Gitea's API does (its swagger file), and refuses every other request.
type vendor struct {
	auth  string // the Authorization that it accepts
	login string // of the token's owner
	keep  bool   // whether it keeps statuses and comments between requests

	mu       sync.Mutex
	statuses []status          // oldest first
	comments []githost.Comment // oldest first
	posts    int
}

var (
	statusList   = regexp.MustCompile(`^(?:/[a-z-]+)?/api/v1/repos/[^/]+/[^/]+/commits/([0-9a-f]{40}|[0-9a-f]{64})/status$`)
	statusCreate = regexp.MustCompile(`^(?:/[a-z-]+)?/api/v1/repos/[^/]+/[^/]+/statuses/([0-9a-f]{40}|[0-9a-f]{64})$`)
	commentList  = regexp.MustCompile(`^(?:/[a-z-]+)?/api/v1/repos/[^/]+/[^/]+/issues/([1-9][0-9]*)/comments$`)
	commentEdit  = regexp.MustCompile(`^(?:/[a-z-]+)?/api/v1/repos/[^/]+/[^/]+/issues/comments/([1-9][0-9]*)$`)
	user         = regexp.MustCompile(`^(?:/[a-z-]+)?/api/v1/user$`)
)

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != v.auth {
		refuse(w, http.StatusUnauthorized)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	path, post := r.URL.EscapedPath(), r.Method == http.MethodPost
	switch {
	case r.Method == http.MethodGet && statusList.MatchString(path):
		v.listStatuses(w, r)
	case post && statusCreate.MatchString(path):
		v.createStatus(w, r)
	case r.Method == http.MethodGet && commentList.MatchString(path):
		reply(w, http.StatusOK, v.comments) // all of them: this list has no pages
	case post && commentList.MatchString(path):
		v.createComment(w, r)
	case r.Method == http.MethodPatch && commentEdit.MatchString(path):
		v.editComment(w, r, commentEdit.FindStringSubmatch(path)[1])
	case r.Method == http.MethodGet && user.MatchString(path):
		reply(w, http.StatusOK, map[string]any{"id": 1, "login": v.login, "full_name": "Flux"})
	default:
		refuse(w, http.StatusNotFound)
	}
}

// listStatuses answers a page of the last status of each context, the newest first.
func (v *vendor) listStatuses(w http.ResponseWriter, r *http.Request) {
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	limit, err2 := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || err2 != nil || page < 1 || limit < 1 || limit > 50 {
		refuse(w, http.StatusUnprocessableEntity)
		return
	}
	var last []map[string]any
	seen := map[string]bool{}
	for _, s := range slices.Backward(v.statuses) {
		if !seen[s.Context] {
			seen[s.Context] = true
			last = append(last, map[string]any{
				"id": len(last), "status": s.State, "context": s.Context, "description": s.Description, "created_at": s.Created,
				"creator": map[string]any{"login": v.login},
			})
		}
	}
	if len(last) == 0 { // like old releases
		w.WriteHeader(http.StatusOK)
		return
	}
	last = last[min((page-1)*limit, len(last)):]
	reply(w, http.StatusOK, map[string]any{"state": "success", "statuses": last[:min(limit, len(last))], "total_count": len(seen)})
}

func (v *vendor) createStatus(w http.ResponseWriter, r *http.Request) {
	fields, err := fields(r, "state", "target_url", "description", "context")
	states := []string{"pending", "success", "error", "failure", "warning"}
	if err != nil || !slices.Contains(states, fields["state"]) || fields["context"] == "" {
		refuse(w, http.StatusUnprocessableEntity)
		return
	}
	v.posts++
	if v.keep {
		v.statuses = append(v.statuses, status{State: fields["state"], Description: fields["description"], Context: fields["context"]})
	}
	reply(w, http.StatusCreated, map[string]any{"id": v.posts, "status": fields["state"], "context": fields["context"]})
}

func (v *vendor) createComment(w http.ResponseWriter, r *http.Request) {
	fields, err := fields(r, "body")
	if err != nil || fields["body"] == "" {
		refuse(w, http.StatusUnprocessableEntity)
		return
	}
	v.posts++
	c := githost.Comment{ID: int64(len(v.comments)) + 1, Body: fields["body"], Updated: time.Now()}
	c.User.Login = v.login
	if v.keep {
		v.comments = append(v.comments, c)
	}
	reply(w, http.StatusCreated, c)
}

func (v *vendor) editComment(w http.ResponseWriter, r *http.Request, id string) {
	fields, err := fields(r, "body")
	i := slices.IndexFunc(v.comments, func(c githost.Comment) bool { return strconv.FormatInt(c.ID, 10) == id })
	switch {
	case err != nil || fields["body"] == "":
		refuse(w, http.StatusUnprocessableEntity)
	case i < 0:
		refuse(w, http.StatusNotFound)
	default:
		v.comments[i].Body = fields["body"]
		reply(w, http.StatusOK, v.comments[i])
	}
}

// fields reads a JSON body whose fields are strings with the given names.
func fields(r *http.Request, names ...string) (map[string]string, error) {
	var body map[string]string
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("content type")
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	for name := range body {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s is no field", name)
		}
	}
	return body, nil
}

func refuse(w http.ResponseWriter, status int) {
	reply(w, status, map[string]any{"message": "refused", "url": "https://gitea.example.com/api/swagger"})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
