package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"notifier/test/env"
)

// vendor is the part of an alerting service that tracks open alerts: it logs "opened" and "closed". The tests of each
// type check its requests one by one; here the whole program works with it.
type vendor struct {
	providerType string
	// user and path are those of the Provider's address; the user ends in "@".
	user, path string
	// serve answers a request and may open or close alerts.
	serve func(v *vendor, r env.Received, body map[string]any) env.Answer

	mu   sync.Mutex
	open map[string]json.RawMessage
	log  []string
	// drops is the number of next answers that are lost, after the request was carried out.
	drops int
}

// answer is the vendor's side of a Sink.
func (v *vendor) answer(r env.Received) env.Answer {
	v.mu.Lock()
	defer v.mu.Unlock()
	var body map[string]any
	_ = json.Unmarshal(r.Body, &body) // it stays empty for a list, and for a request without a body
	before := len(v.log)
	a := v.serve(v, r, body)
	if len(v.log) > before && v.drops > 0 {
		v.drops--
		a.Drop = true
	}
	return a
}

func (v *vendor) set(key string, open bool, value json.RawMessage) {
	_, was := v.open[key]
	switch {
	case open && !was:
		v.log = append(v.log, "opened")
	case !open && was:
		v.log = append(v.log, "closed")
	}
	delete(v.open, key)
	if open {
		v.open[key] = value
	}
}

func (v *vendor) seen() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.log)
}

func (v *vendor) loseAnswers(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drops = n
}

func text(body map[string]any, key string) string {
	s, _ := body[key].(string)
	return s
}

// alertingVendors returns the vendors whose incidents their Providers' requests close.
func alertingVendors() []*vendor {
	return []*vendor{
		{providerType: "pagerduty", serve: servePagerDuty},
		{providerType: "alertmanager", path: "/api/v2/alerts", serve: serveAlertmanager},
		{providerType: "opsgenie", path: "/v2/alerts", serve: serveOpsgenie},
		{providerType: "incident.io", path: "/v2/alert_events/http/source", serve: serveIncidentIO},
		{providerType: "grafana", path: "/api/annotations", serve: serveGrafana},
		{providerType: "datadog", serve: serveDatadog},
		sentryVendor(),
	}
}

func servePagerDuty(v *vendor, r env.Received, body map[string]any) env.Answer {
	if r.Path == "/v2/enqueue" {
		v.set(text(body, "dedup_key"), text(body, "event_action") == "trigger", nil)
	}
	return env.Answer{Status: http.StatusAccepted, Body: `{"status":"success"}`}
}

func serveOpsgenie(v *vendor, r env.Received, body map[string]any) env.Answer {
	if alias, closing := strings.CutSuffix(r.Path, "/close"); closing {
		v.set(strings.TrimPrefix(alias, "/v2/alerts/"), false, nil)
	} else {
		v.set(text(body, "alias"), true, nil)
	}
	return env.Answer{Status: http.StatusAccepted, Body: `{"result":"Request will be processed"}`}
}

func serveIncidentIO(v *vendor, _ env.Received, body map[string]any) env.Answer {
	v.set(text(body, "deduplication_key"), text(body, "status") == "firing", nil)
	return env.Answer{Status: http.StatusAccepted}
}

func serveDatadog(v *vendor, _ env.Received, body map[string]any) env.Answer {
	v.set(text(body, "aggregation_key"), text(body, "alert_type") == "error", nil)
	return env.Answer{Status: http.StatusAccepted, Body: `{"status":"ok"}`}
}

// serveAlertmanager keeps the firing alerts by their labels, and ignores filters when it lists them: there is one
// object.
func serveAlertmanager(v *vendor, r env.Received, _ map[string]any) env.Answer {
	if r.Method == http.MethodGet {
		list := []json.RawMessage{}
		for _, alert := range v.open {
			list = append(list, alert)
		}
		raw, err := json.Marshal(list)
		if err != nil {
			return env.Answer{Status: http.StatusInternalServerError}
		}
		return env.Answer{Body: string(raw)}
	}
	var alerts []struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt"`
	}
	if json.Unmarshal(r.Body, &alerts) != nil {
		return env.Answer{Status: http.StatusBadRequest}
	}
	for _, a := range alerts {
		raw, err := json.Marshal(a)
		if err != nil {
			return env.Answer{Status: http.StatusInternalServerError}
		}
		v.set(fmt.Sprint(a.Labels), a.EndsAt.After(time.Now()), raw)
	}
	return env.Answer{}
}

// stored returns a tag as Grafana's database stores it.
func stored(tag string) string { return strings.ReplaceAll(tag, ": ", ":") }

// serveGrafana keeps all annotations, newest first. An annotation with the tag of a failure and no end is open.
func serveGrafana(v *vendor, r env.Received, body map[string]any) env.Answer {
	switch r.Method {
	case http.MethodGet:
		query, err := url.ParseQuery(r.Query)
		if err != nil {
			return env.Answer{Status: http.StatusBadRequest}
		}
		list := []json.RawMessage{}
		for id := len(v.open); id > 0; id-- {
			annotation := v.open[strconv.Itoa(id)]
			if !slices.ContainsFunc(query["tags"], func(tag string) bool { return !strings.Contains(string(annotation), strconv.Quote(stored(tag))) }) {
				list = append(list, annotation)
			}
		}
		raw, err := json.Marshal(list)
		if err != nil {
			return env.Answer{Status: http.StatusInternalServerError}
		}
		return env.Answer{Body: string(raw)}
	case http.MethodPost:
		id := len(v.open) + 1
		body["id"] = id
		if body["timeEnd"] == nil {
			body["timeEnd"] = body["time"]
		}
		tags, _ := body["tags"].([]any)
		for i, tag := range tags {
			tags[i] = stored(tag.(string))
		}
		if slices.Contains(tags, any("severity:error")) {
			v.log = append(v.log, "opened")
		}
		v.open[strconv.Itoa(id)], _ = json.Marshal(body)
	case http.MethodPatch:
		id := r.Path[strings.LastIndex(r.Path, "/")+1:]
		var annotation map[string]any
		if json.Unmarshal(v.open[id], &annotation) != nil {
			return env.Answer{Status: http.StatusNotFound}
		}
		if body["timeEnd"] != nil {
			annotation["timeEnd"] = body["timeEnd"]
			v.log = append(v.log, "closed")
		}
		v.open[id], _ = json.Marshal(annotation)
	}
	return env.Answer{Body: `{"message":"Annotation added","id":1}`}
}
