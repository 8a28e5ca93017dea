package gitlab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"notifier/internal/alerts/provider/providertest"
)

const (
	fakeToken = "glpat-s3cret"
	commit    = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"
)

type job struct {
	ID          int       `json:"id"`
	SHA         string    `json:"sha"`
	Ref         string    `json:"ref"`
	Name        string    `json:"name"`
	Status      string    `json:"status"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created_at"`
}

type user struct {
	ID       int    `json:"id"`
	Username string `json:"username"`
}

type note struct {
	ID      int       `json:"id"`
	Body    string    `json:"body"`
	Author  user      `json:"author"`
	System  bool      `json:"system"`
	Updated time.Time `json:"updated_at"`
}

// fakeGitLab answers as GitLab's API for the project group/sub/s3cret and merge request 7, and refuses the requests that GitLab
// refuses.
type fakeGitLab struct {
	mu    sync.Mutex
	jobs  []job
	notes []note
	asked []string
	// ordered means that the API has order_by, as since 17.8.
	ordered bool
	// locked means that another request has the lock of the commit's statuses.
	locked bool
}

func (f *fakeGitLab) unlock() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locked = false
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"message": message})
}

func (f *fakeGitLab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const project = "/api/v4/projects/group%2Fsub%2Fs3cret"
	path := r.URL.EscapedPath()
	f.asked = append(f.asked, r.Method+" "+strings.TrimPrefix(path, project))
	inProject, ok := strings.CutPrefix(path, project)
	switch route := r.Method + " " + inProject; {
	case r.Header.Get("Private-Token") != fakeToken:
		refuse(w, http.StatusUnauthorized, "401 Unauthorized")
	case path == "/api/v4/user":
		answer(w, http.StatusOK, user{1, "project_1_bot"})
	case !ok:
		refuse(w, http.StatusNotFound, "404 Project Not Found")
	case route == "GET /repository/commits/"+commit+"/statuses":
		f.list(w, r)
	case route == "POST /statuses/"+commit && f.locked:
		refuse(w, http.StatusConflict, "409 Conflict: Resource lock")
	case route == "POST /statuses/"+commit:
		f.set(w, r)
	case strings.HasPrefix(route, "POST /statuses/"):
		refuse(w, http.StatusNotFound, "404 Commit Not Found")
	case strings.HasPrefix(inProject, "/merge_requests/7/notes"):
		f.serveNotes(w, r, strings.TrimPrefix(inProject, "/merge_requests/7/notes"))
	default:
		refuse(w, http.StatusNotFound, "404 Not found")
	}
}

// list answers the jobs of a name.
func (f *fakeGitLab) list(w http.ResponseWriter, r *http.Request) {
	found := []job{}
	for _, j := range f.jobs {
		if j.Name == r.URL.Query().Get("name") {
			found = append(found, j)
		}
	}
	if f.ordered && r.URL.Query().Get("order_by") == "id" && r.URL.Query().Get("sort") == "desc" {
		slices.Reverse(found)
	}
	answer(w, http.StatusOK, found)
}

func (f *fakeGitLab) set(w http.ResponseWriter, r *http.Request) {
	var s struct{ State, Name, Description string }
	err := providertest.DecodeRequest(r, &s)
	switch {
	case err != nil, s.State != "success" && s.State != "failed", s.Name == "":
		refuse(w, http.StatusBadRequest, "400 Bad request")
	case utf8.RuneCountInString(s.Name) > 255, utf8.RuneCountInString(s.Description) > 255:
		answer(w, http.StatusBadRequest, map[string]any{"message": map[string]any{"name": []string{"is too long"}}})
	default:
		f.jobs = append(f.jobs, job{len(f.jobs) + 1, commit, "main", s.Name, s.State, s.Description, time.Now()})
		answer(w, http.StatusCreated, f.jobs[len(f.jobs)-1])
	}
}

func (f *fakeGitLab) serveNotes(w http.ResponseWriter, r *http.Request, id string) {
	var c struct{ Body string }
	switch {
	case r.Method == http.MethodGet && id == "":
		page, size := 0, 0
		q := r.URL.Query()
		if _, err := fmt.Sscan(q.Get("page")+" "+q.Get("per_page"), &page, &size); err != nil || size > 100 || q.Get("sort") != "asc" {
			refuse(w, http.StatusBadRequest, "400 Bad request")
			return
		}
		from := min((page-1)*size, len(f.notes))
		answer(w, http.StatusOK, f.notes[from:min(from+size, len(f.notes))])
	case providertest.DecodeRequest(r, &c) != nil || c.Body == "" || utf8.RuneCountInString(c.Body) > 1_000_000:
		refuse(w, http.StatusBadRequest, "400 Bad request")
	case r.Method == http.MethodPost && id == "":
		f.notes = append(f.notes, note{ID: len(f.notes) + 1, Body: c.Body, Author: user{1, "project_1_bot"}, Updated: time.Now()})
		answer(w, http.StatusCreated, f.notes[len(f.notes)-1])
	case r.Method == http.MethodPut:
		for i := range f.notes {
			if "/"+fmt.Sprint(f.notes[i].ID) == id && f.notes[i].Author.ID == 1 {
				f.notes[i].Body = c.Body
				answer(w, http.StatusOK, f.notes[i])
				return
			}
		}
		refuse(w, http.StatusNotFound, "404 Not found")
	default:
		refuse(w, http.StatusMethodNotAllowed, "405 Method Not Allowed")
	}
}
