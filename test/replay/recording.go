package replay

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

//go:embed testdata
var files embed.FS

// recording has the requests of the controllers in one scenario.
type recording struct {
	name  string
	steps []step
	// base is the time of the recording's start, true to a second.
	base time.Time
}

// step is a line of a recording: a change of an object, or a POST.
type step struct {
	T     int64 `json:"t"`
	Watch *struct {
		Type   string                    `json:"type"`
		Object unstructured.Unstructured `json:"object"`
	} `json:"watch"`
	Post map[string]any `json:"post"`
	// Answer is the answer to the POST, empty for 202.
	Answer string `json:"answer"`
}

func (s step) at() time.Duration { return time.Duration(s.T) * time.Millisecond }

// fact is an expected message, or a state in the status of an object alone.
type fact struct {
	T        int64  `json:"t"`
	By       string `json:"by"`
	Object   string `json:"object"`
	UID      string `json:"uid"`
	Severity string `json:"severity"`
	Outcome  string `json:"outcome"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Revision string `json:"revision"`
	// Must is false if the fact may be stated and may be left out.
	Must bool `json:"must"`
	// Transient facts must never be stated. LastsMS is how long the state lasted, nil to the end.
	Transient bool   `json:"transient"`
	LastsMS   *int64 `json:"lasts_ms"`
}

// expectation has the expected messages of one scenario.
type expectation struct {
	// Info are the messages of an Alert of severity info; Error are the indexes of those of an Alert of severity error.
	Info  []fact `json:"info"`
	Error []int  `json:"error"`
	// Transitions are the facts that a watcher alone can find.
	Transitions []fact `json:"transitions"`
}

// load reads all recordings, with their expectations.
func load() ([]*recording, map[string]expectation, error) {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		return nil, nil, err
	}
	var all []*recording
	expected := map[string]expectation{}
	for _, entry := range entries {
		raw, err := files.ReadFile(path.Join("testdata", entry.Name()))
		if err != nil {
			return nil, nil, err
		}
		name, recorded := strings.CutSuffix(entry.Name(), ".jsonl")
		if !recorded {
			if err := json.Unmarshal(raw, &expected); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", entry.Name(), err)
			}
			continue
		}
		r := &recording{name: name}
		if err := r.read(raw); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, r)
	}
	return all, expected, nil
}

func (r *recording) read(raw []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return err
		}
		if s.Post != nil {
			sent, _, _ := unstructured.NestedString(s.Post, "timestamp")
			at, err := time.Parse(time.RFC3339, sent)
			if err != nil {
				return err
			}
			// A whole second, cut: the start was at most this much earlier.
			if start := at.Add(-s.at()); start.After(r.base) {
				r.base = start
			}
		}
		if s.Watch != nil || s.Post != nil {
			r.steps = append(r.steps, s)
		}
	}
	return lines.Err()
}
