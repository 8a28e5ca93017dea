package sentry

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// vendor is Sentry by its documentation of the envelope endpoint and of the web API. It drops a repeated error.
type vendor struct {
	mu     sync.Mutex
	seen   map[string]bool
	issues map[string]int      // errors by fingerprint
	open   map[string][]string // the tags of unresolved issues, by fingerprint
	trail  []string            // transactions
	log    []string            // "opened" and "closed"
	// slow makes every search find no issue.
	slow bool
}

func newVendor() *vendor {
	return &vendor{seen: map[string]bool{}, issues: map[string]int{}, open: map[string][]string{}}
}

func (v *vendor) events() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.log)
}

var (
	isID     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	isSpan   = regexp.MustCompile(`^[0-9a-f]{16}$`)
	isSearch = regexp.MustCompile(`^is:unresolved flux_object:([0-9a-f]{64})$`)
	isKey    = regexp.MustCompile(`^[a-zA-Z0-9_.:-]{1,200}$`)
)

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodGet || r.Method == http.MethodPut {
		status, answer := v.api(r, string(raw))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
		return
	}
	const auth = "Sentry sentry_version=7, sentry_client=notifier/1.0, sentry_key=" + key
	switch {
	case r.Method != http.MethodPost || !regexp.MustCompile(`^(/[^/]+)*/api/[^/]+/envelope/$`).MatchString(r.URL.Path):
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("X-Sentry-Auth") != auth || r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail":"bad sentry DSN public key"}`)
	case r.Header.Get("Content-Type") != "application/x-sentry-envelope" || len(raw) > 200<<10 || !v.take(string(raw)):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"detail":"invalid event envelope","causes":["s3cret"]}`)
	default:
		_, _ = io.WriteString(w, `{"id":"x"}`)
	}
}

func strict(raw string, into any) bool {
	d := json.NewDecoder(strings.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

func (v *vendor) take(raw string) bool {
	lines := strings.Split(raw, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return false
	}
	var head struct {
		ID string `json:"event_id"`
	}
	var itemHead struct {
		Type   string
		Length int
	}
	var i item
	if !strict(lines[0], &head) || !strict(lines[1], &itemHead) || !strict(lines[2], &i) ||
		itemHead.Length != len(lines[2]) || head.ID != i.EventID || !isID.MatchString(i.EventID) || i.Timestamp.IsZero() {
		return false
	}
	for k, value := range i.Tags {
		if !isKey.MatchString(k) || value == "" || utf8.RuneCountInString(value) > 200 || strings.ContainsAny(value, "\n\r") {
			return false
		}
	}
	if utf8.RuneCountInString(i.Message) > 8192 || utf8.RuneCountInString(i.Transaction) > 200 || utf8.RuneCountInString(i.Environment) > 64 {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch itemHead.Type {
	case "event":
		if i.Level != "error" || i.Type != "" || len(i.Fingerprint) == 0 {
			return false
		}
		v.takeError(i)
		return true
	case "transaction":
		v.trail = append(v.trail, i.Transaction)
		return i.Type == "transaction" && !i.Start.IsZero() && i.Contexts != nil && isID.MatchString(i.Contexts["trace"].TraceID) &&
			isSpan.MatchString(i.Contexts["trace"].SpanID)
	default:
		return false
	}
}

func (v *vendor) takeError(i item) {
	if v.seen[i.EventID] {
		return
	}
	v.seen[i.EventID] = true
	issue := strings.Join(i.Fingerprint, " ")
	v.issues[issue]++
	if v.open[issue] == nil {
		v.log = append(v.log, "opened")
	}
	v.open[issue] = append(v.open[issue], i.Tags["flux_object"])
}

// api is the part of the web API that lists projects and changes issues. Its answers have the documented statuses.
func (v *vendor) api(r *http.Request, raw string) (status int, answer string) {
	_, path, _ := strings.Cut(r.URL.Path, "/api/0/")
	project, query := r.URL.Query().Get("project"), r.URL.Query().Get("query")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("X-Sentry-Auth") != "":
		return http.StatusUnauthorized, `{"detail":"Invalid token"}`
	case r.Method == http.MethodGet && path == "projects/" && query == "id:42":
		return http.StatusOK, `[{"id":"7","organization":{"slug":"other"}},{"id":"42","slug":"web","organization":{"id":"1","slug":"acme"}}]`
	case r.Method != http.MethodPut || path != "organizations/acme/issues/" && path != "organizations/1/issues/":
		return http.StatusNotFound, `{"detail":"The requested resource does not exist"}`
	case project != "42":
		return http.StatusForbidden, `{"detail":"You do not have permission to perform this action."}`
	}
	var change struct {
		Status string `json:"status"`
	}
	search := isSearch.FindStringSubmatch(query)
	if !strict(raw, &change) || change.Status != "resolved" || r.Header.Get("Content-Type") != "application/json" || search == nil {
		return http.StatusBadRequest, `{"detail":"Error parsing search query"}`
	}
	return v.resolve(search[1])
}

func (v *vendor) resolve(tag string) (status int, answer string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := 0
	for issue, tags := range v.open {
		if slices.Contains(tags, tag) && !v.slow {
			delete(v.open, issue)
			v.log = append(v.log, "closed")
			found++
		}
	}
	if found == 0 {
		return http.StatusNoContent, ""
	}
	return http.StatusOK, `{"status":"resolved","statusDetails":{}}`
}
