package alarms

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

const (
	// scrape is the time between two samples of a series, and lasts how long the series are.
	scrape = 30 * time.Second
	lasts  = 2 * time.Hour
)

// rule is an alarm as the Prometheus Operator reads it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules returns the alarms by their names.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Spec struct {
			Groups []struct {
				Rules []rule `yaml:"rules"`
			} `yaml:"groups"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]rule{}
	for _, g := range file.Spec.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r
		}
	}
	return all
}

// labelUse is a label in the text of an alarm.
var labelUse = regexp.MustCompile(`\$labels\.([a-z_]+)`)

// fires reports whether the alarm fires at the end of the series: one of its results was there for all of its time. Its text must have a value
// for each of its labels.
func (r rule) fires(t *testing.T, series []string) bool {
	t.Helper()
	pending := time.Duration(0)
	if r.For != "" {
		var err error
		if pending, err = time.ParseDuration(r.For); err != nil {
			t.Fatal(err)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	end := time.Unix(0, 0).Add(lasts)
	query, err := engine.NewRangeQuery(t.Context(), database(t, series), nil, r.Expr, end.Add(-pending), end, scrape)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	defer query.Close()
	result, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	fires := false
	for _, s := range result {
		if len(s.Floats) <= int(pending/scrape) {
			continue // it was not there all the time
		}
		fires = true
		for _, use := range labelUse.FindAllStringSubmatch(r.Annotations["summary"], -1) {
			if !s.Metric.Has(use[1]) {
				t.Errorf("%s: its text names the label %s, and it has %s", r.Alert, use[1], s.Metric)
			}
		}
	}
	return fires
}

// database has some series, each in the notation of promtool's tests: a value follows after each scrape.
func database(t *testing.T, described []string) storage.Queryable {
	t.Helper()
	var all series
	for _, text := range described {
		name, values, err := parser.ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		one := promql.Series{Metric: name}
		for i, v := range values {
			if !v.Omitted {
				one.Floats = append(one.Floats, promql.FPoint{T: int64(i) * scrape.Milliseconds(), F: v.Value})
			}
		}
		all = append(all, promql.NewStorageSeries(one))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			selected := &found{at: -1}
			for _, s := range all {
				if matches(s.Labels(), matchers) {
					selected.series = append(selected.series, s)
				}
			}
			return selected
		},
	}}
}

type series []storage.Series

func matches(name labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(name.Get(m.Name)) {
			return false
		}
	}
	return true
}

// found is a storage.SeriesSet.
type found struct {
	series series
	at     int
}

func (f *found) Next() bool {
	f.at++
	return f.at < len(f.series)
}
func (f *found) At() storage.Series              { return f.series[f.at] }
func (*found) Err() error                        { return nil }
func (*found) Warnings() annotations.Annotations { return nil }
