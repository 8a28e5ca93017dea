package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fluxLine is a line as flux logs decodes it.
type fluxLine struct {
	Timestamp string `json:"ts"`
	Level     string `json:"level"`
	Message   string `json:"msg"`
	Error     string `json:"error,omitempty"`
	Logger    string `json:"logger"`
	Kind      string `json:"controllerKind,omitempty"`
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// written returns the lines that log writes, read as flux logs reads them, without their times.
func written(t *testing.T, log func(*slog.Logger)) []fluxLine {
	t.Helper()
	var out bytes.Buffer
	log(newLogger(&out, "debug", "json"))
	var lines []fluxLine
	scanner := bufio.NewScanner(&out)
	for scanner.Scan() {
		var l fluxLine
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			t.Fatalf("%v in %s", err, scanner.Text())
		}
		at, err := time.Parse("2006-01-02T15:04:05.000Z", l.Timestamp)
		if err != nil || time.Since(at) > time.Minute {
			t.Errorf("ts is %q: %v", l.Timestamp, err)
		}
		l.Timestamp = ""
		lines = append(lines, l)
	}
	if err := scanner.Err(); err != nil {
		t.Fatalf("flux logs ends here: %v", err)
	}
	return lines
}

// Fails when a level that the help and the documentation name is refused, when the documentation lacks one, or when an error does not name them.
func TestTheLevelsAreThoseOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for level := range strings.FieldsFuncSeq(LogLevels, func(r rune) bool { return r == ',' || r == ' ' }) {
		if level == "or" {
			continue
		}
		if _, err := parseLevel(level); err != nil {
			t.Error(err)
		}
	}
	if quoted := "`" + strings.NewReplacer(", ", "`, `", " or ", "` or `").Replace(LogLevels) + "`"; !strings.Contains(string(page), quoted) {
		t.Errorf("the documentation lacks %s", quoted)
	}
	if _, err := parseLevel("loud"); err == nil || !strings.Contains(err.Error(), LogLevels) {
		t.Errorf("of no level: %v", err)
	}
}

// Fails when a level of Flux's leaves out lines that are written under that level.
func TestLevelErrorHasEveryLineThatIsAnError(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, "error", "json")
	log.Info("left out")
	log.Warn("a warning")
	log.Error("an error")
	if got := out.String(); strings.Contains(got, "left out") || strings.Count(got, `"level":"error"`) != 2 {
		t.Errorf("logged %s", got)
	}
}

// Fails when a line is not found under the object that it is about, or has a level that flux logs --level does not have.
func TestALineIsReadByFluxLogsUnderTheObjectThatItIsAbout(t *testing.T) {
	got := written(t, func(log *slog.Logger) {
		log.Debug("d")
		log.With("component", "receiver").Info("webhook", "namespace", "team-a", "receiver", "app", "type", "github")
		log.Warn("delivery", "namespace", "team-a", "object", "Kustomization/team-a/app", "alert", "all", "provider", "slack")
		log.Warn("destination fails", "namespace", "team-a", "provider", "slack")
		log.With("namespace", "team-a", "kind", "GitRepository", "name", "app").Info("reconcile requested", "receiver", "hook")
		log.With("kind", "Alert", "stage", "status").Error("reconcile failed", "namespace", "team-a", "name", "all", "error", errors.New("no"))
		log.With("kind", "Alert").Warn("cannot follow the kind")
	})
	want := []fluxLine{
		{Level: "debug", Message: "d"},
		{Level: "info", Message: "webhook", Kind: "Receiver", Name: "app", Namespace: "team-a"},
		{Level: "error", Message: "delivery", Kind: "Alert", Name: "all", Namespace: "team-a"},
		{Level: "error", Message: "destination fails", Kind: "Provider", Name: "slack", Namespace: "team-a"},
		{Level: "info", Message: "reconcile requested", Kind: "GitRepository", Name: "app", Namespace: "team-a"},
		{Level: "error", Message: "reconcile failed", Error: "no", Kind: "Alert", Name: "all", Namespace: "team-a"},
		{Level: "error", Message: "cannot follow the kind"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// flux logs ends at the first line that it cannot decode or that is longer than 64 KiB. Fails when a value of a key that it reads is not
// written as a string, or when a long value is not cut.
func TestNoLineEndsFluxLogs(t *testing.T) {
	long := "xx" + strings.Repeat("\x01é", 100_000) // the bound is within an é
	got := written(t, func(log *slog.Logger) {
		log.Info("numbers", "name", 7, "namespace", true, "error", 3, "logger", []string{"a"})
		log.Info("client-go", "err", errors.New("refused"), "object", map[string]string{"name": "x"})
		log.Info("long", "error", errors.New(long), "reason", long, "stack", strings.Repeat("\tapp.go:1\n", 100_000))
		log.WithGroup("g").Info("a group", "name", 1, "kind", "Pod")
		log.Info("last")
	})
	if len(got) != 5 {
		t.Fatalf("got %d lines", len(got))
	}
	if got[0].Name != "7" || got[0].Namespace != "true" || got[0].Error != "3" {
		t.Errorf("got %+v", got[0])
	}
	if got[1].Error != "refused" {
		t.Errorf("got %+v", got[1])
	}
	if e := got[2].Error; len(e) > maxLogValue+10 || !strings.HasSuffix(e, "é (cut)") && !strings.HasSuffix(e, "\x01 (cut)") {
		t.Errorf("got %d bytes that end in %q", len(e), e[len(e)-10:])
	}
	if got[3].Kind != "" || got[3].Name != "" {
		t.Errorf("what is in a group is not the line's: got %+v", got[3])
	}
}
