package grafana

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// stored is an annotation as Grafana has it.
type stored struct {
	ID      int64          `json:"id"`
	Time    int64          `json:"time"`
	TimeEnd int64          `json:"timeEnd"`
	Text    string         `json:"text"`
	Tags    []string       `json:"tags"`
	Data    map[string]any `json:"data"`
}

// vendor is Grafana's API of annotations with the rules of its database, PostgreSQL, which stores no NUL. A tag is split at its colon, and
// without an end the end is the beginning.
type vendor struct {
	mu  sync.Mutex
	all []*stored
	log []string
}

func (v *vendor) events() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.log)
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	status := http.StatusMethodNotAllowed
	switch {
	case r.Method == http.MethodGet:
		v.get(w, r.URL.Query()["tags"], r.URL.Query().Get("limit"))
		return
	case r.Header.Get("Content-Type") != "application/json":
		status = http.StatusUnsupportedMediaType
	case r.Method == http.MethodPost:
		status = v.post(r.Body)
	case r.Method == http.MethodPatch:
		status = v.patch(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], r.Body)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"message":"Annotation added","id":1}`)
}

// storable reports whether the database takes the texts.
func (c *command) storable() bool { return !strings.Contains(c.Text+strings.Join(c.Tags, ""), "\x00") }

// command is a request's body.
type command struct {
	Time, TimeEnd int64
	Text          string
	Tags          []string
	Data          map[string]any
}

func (c *command) read(body io.Reader) bool {
	raw, _ := io.ReadAll(body)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(c) != nil {
		return false
	}
	length := 2
	for i, tag := range c.Tags {
		length += len(tag) + 2 + min(i, 1)
		key, value, _ := strings.Cut(tag, ":")
		if utf8.RuneCountInString(key) > 100 || utf8.RuneCountInString(value) > 100 {
			return false
		}
		c.Tags[i] = split(tag)
	}
	return length <= 500
}

// split returns a tag as it is stored.
func split(tag string) string {
	parts := strings.Split(tag, ":")
	if len(parts) == 1 || strings.Trim(parts[1], " ") == "" {
		return strings.Trim(parts[0], " ")
	}
	return strings.Trim(parts[0], " ") + ":" + strings.Trim(parts[1], " ")
}

func (v *vendor) post(body io.Reader) int {
	var c command
	if !c.read(body) || c.Text == "" {
		return http.StatusBadRequest
	}
	if !c.storable() {
		return http.StatusInternalServerError
	}
	v.all = append(v.all, &stored{int64(len(v.all) + 1), c.Time, max(c.Time, c.TimeEnd), c.Text, c.Tags, c.Data})
	if slices.Contains(c.Tags, "severity:error") {
		v.log = append(v.log, "opened")
	}
	return http.StatusOK
}

func (v *vendor) patch(id string, body io.Reader) int {
	i, err := strconv.Atoi(id)
	if err != nil || i < 1 || i > len(v.all) {
		return http.StatusNotFound
	}
	var c command
	if !c.read(body) {
		return http.StatusBadRequest
	}
	if !c.storable() {
		return http.StatusInternalServerError
	}
	a := v.all[i-1]
	if c.TimeEnd > 0 {
		a.TimeEnd = c.TimeEnd
		v.log = append(v.log, "closed")
	}
	a.Text = cmp.Or(c.Text, a.Text)
	return http.StatusOK
}

func (v *vendor) get(w http.ResponseWriter, tags []string, limit string) {
	most, err := strconv.Atoi(limit)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	matched := []*stored{}
	for _, a := range v.all {
		if !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(a.Tags, split(tag)) }) {
			matched = append(matched, a)
		}
	}
	slices.SortStableFunc(matched, func(a, b *stored) int {
		return cmp.Or(cmp.Compare(b.TimeEnd, a.TimeEnd), cmp.Compare(b.Time, a.Time))
	})
	_ = json.NewEncoder(w).Encode(matched[:min(most, len(matched))])
}
