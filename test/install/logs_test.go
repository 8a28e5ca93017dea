package install

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// logEntry is the type into which flux logs decodes a line.
type logEntry struct {
	Timestamp string `json:"ts"`
	Level     string `json:"level"`
	Message   string `json:"msg"`
	Error     string `json:"error,omitempty"`
	Logger    string `json:"logger"`
	Kind      string `json:"controllerKind,omitempty"`
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// fluxLogs reads a log as flux logs does: lines that begin with a brace, up to the first that is too long or does not
// decode. That line is an error here.
func fluxLogs(log string) ([]logEntry, error) {
	var entries []logEntry
	scanner := bufio.NewScanner(strings.NewReader(log))
	for scanner.Scan() {
		if !strings.HasPrefix(scanner.Text(), "{") {
			continue
		}
		var e logEntry
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return entries, fmt.Errorf("%w: %s", err, scanner.Text())
		}
		entries = append(entries, e)
	}
	return entries, scanner.Err()
}

// Fails when flux logs cannot read the process's log, or cannot find a line by the kind, name and namespace of its
// object.
func TestFluxLogsFindsWhatTheProcessSaysOfAnObject(t *testing.T) {
	s := setUp(t)
	n := s.process()
	s.Notifier = n
	sink := s.NewSink()
	sink.Answer(env.Answer{Status: http.StatusNotFound}) // permanent, so the delivery is given up
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.SlackAlert(s.Ctx, "all", sink.URL("/")))
	s.Must(s.Tenant.SlackAlert(s.Ctx, "fine", s.NewSink().URL("/")))
	path := s.Receiver(s.Tenant, "hook", "t", "")
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
	s.Must(err)
	_, err = n.Post(s.Ctx, event)
	s.Must(err)

	// flux logs --namespace=… --kind=… --name=… --level=…
	for _, want := range []logEntry{
		{Kind: "Receiver", Name: "hook", Level: "info", Message: "webhook"},
		{Kind: "GitRepository", Name: "app", Level: "info", Message: "reconcile requested"},
		{Kind: "Alert", Name: "all", Level: "error", Message: "delivery"},
		{Kind: "Alert", Name: "fine", Level: "info", Message: "delivery"},
	} {
		s.Must(env.Eventually(s.Within(30*time.Second), func(context.Context) error {
			entries, err := fluxLogs(n.Logs())
			if err == nil && !slices.ContainsFunc(entries, func(e logEntry) bool {
				return e.Kind == want.Kind && e.Name == want.Name && e.Namespace == s.Tenant.Namespace && e.Level == want.Level && e.Message == want.Message
			}) {
				err = fmt.Errorf("flux logs --kind=%s --name=%s --level=%s shows nothing", want.Kind, want.Name, want.Level)
			}
			return err
		}))
	}
	entries, err := fluxLogs(n.Logs())
	s.Must(err)
	for _, e := range entries {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", e.Timestamp); err != nil || e.Message == "" || !slices.Contains([]string{"debug", "info", "error"}, e.Level) {
			t.Errorf("got %+v", e)
		}
	}
}
