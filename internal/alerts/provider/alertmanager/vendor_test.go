package alertmanager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// vendor is Alertmanager's API of alerts, version 2. It applies Alertmanager's rules of validity, of identity and of firing.
type vendor struct {
	mu     sync.Mutex
	now    time.Time
	alerts map[string]alert
	log    []string
	header http.Header // of the last request
}

// newVendor returns an Alertmanager whose clock is in the hour of the kit's events.
func newVendor() *vendor {
	return &vendor{now: time.Date(2026, 3, 4, 5, 30, 0, 0, time.UTC), alerts: map[string]alert{}}
}

func (v *vendor) events() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.log)
}

// firing returns the revisions of the firing alerts.
func (v *vendor) firing() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var revisions []string
	for _, a := range v.alerts {
		if a.EndsAt.After(v.now) {
			revisions = append(revisions, a.Labels["revision"])
		}
	}
	slices.Sort(revisions)
	return revisions
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.header = r.Header.Clone()
	switch {
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/json":
		body, _ := io.ReadAll(r.Body)
		if fault := v.post(body); fault != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(fault)
		}
	case r.Method == http.MethodGet:
		v.get(w, r.URL.Query()["filter"])
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

var validName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (v *vendor) post(body []byte) string {
	var alerts []struct {
		alert
		GeneratorURL string `json:"generatorURL"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&alerts); err != nil {
		return err.Error()
	}
	for _, posted := range alerts {
		a := posted.alert
		if a.StartsAt.IsZero() || a.EndsAt.IsZero() || a.EndsAt.Before(a.StartsAt) {
			return "start time must be before end time"
		}
		if len(a.Labels) == 0 {
			return "at least one label pair required"
		}
		for _, set := range []map[string]string{a.Labels, a.Annotations} {
			for name, value := range set {
				if !validName.MatchString(name) || value == "" {
					return "invalid label set"
				}
			}
		}
		v.put(a)
	}
	return ""
}

func (v *vendor) put(a alert) {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		fmt.Fprintf(&key, "%q=%q,", name, a.Labels[name])
	}
	old, known := v.alerts[key.String()]
	fired, fires := known && old.EndsAt.After(v.now), a.EndsAt.After(v.now)
	if fires && !fired {
		v.log = append(v.log, "opened")
	}
	if !fires && fired {
		v.log = append(v.log, "closed")
	}
	v.alerts[key.String()] = a
}

func (v *vendor) get(w http.ResponseWriter, filters []string) {
	found := []map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(v.alerts)) {
		a := v.alerts[key]
		matched := a.EndsAt.After(v.now)
		for _, f := range filters {
			name, quoted, _ := strings.Cut(f, "=")
			value, err := strconv.Unquote(quoted)
			if err != nil || !validName.MatchString(name) {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			matched = matched && a.Labels[name] == value
		}
		if matched {
			found = append(found, map[string]any{
				"labels": a.Labels, "annotations": a.Annotations, "startsAt": a.StartsAt, "endsAt": a.EndsAt, "updatedAt": v.now,
				"fingerprint": "f", "receivers": []any{map[string]string{"name": "r"}}, "status": map[string]any{"state": "active"},
			})
		}
	}
	_ = json.NewEncoder(w).Encode(found)
}
