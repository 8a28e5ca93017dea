package main

import (
	"bytes"
	"strings"
	"testing"

	"notifier/test/env"
	"notifier/test/scale"
)

func TestMain(m *testing.M) { env.Main(m) }

// The program ends by itself and prints each figure with its bound. The times of so small a cluster vary on a busy
// machine, so the test does not check their bounds; the output does not depend on them.
func TestTheProgramMeasuresASmallCluster(t *testing.T) {
	t.Parallel()
	var table, progress bytes.Buffer
	code := run([]string{"-namespaces", "2", "-quiet", "1s"}, &table, &progress)
	if code != 0 && !strings.Contains(progress.String(), "a figure is out of its bound") {
		t.Fatalf("exit code %d:\n%s", code, progress.String())
	}
	for _, name := range []string{
		"first start to ready", "restart to ready", "memory after a restart", "statuses written that did not change",
		"transition told after", "rotated Secret served after", "watches of Secrets begun after",
	} {
		if !strings.Contains(table.String(), name) {
			t.Errorf("no figure %q in\n%s", name, table.String())
		}
	}
	for line := range strings.Lines(table.String()) {
		if strings.Contains(line, "NOT HELD") && strings.Contains(line, "did not change") {
			t.Error(line)
		}
	}
}

func TestAFigureOutOfItsBoundIsShownAndFails(t *testing.T) {
	figures := []scale.Figure{{Name: "good", Value: 5, Bound: 5, Unit: "s"}, {Name: "bad", Value: 1, Bound: 0}}
	var table bytes.Buffer
	if print(&table, 50, figures) || !strings.Contains(table.String(), "NOT HELD") {
		t.Errorf("a figure out of its bound passes:\n%s", table.String())
	}
	if table.Reset(); !print(&table, 50, figures[:1]) {
		t.Errorf("a figure at its bound fails:\n%s", table.String())
	}
	if figures[0].Strain() != 1 || figures[1].Strain() != 1 {
		t.Errorf("strains: %g, %g", figures[0].Strain(), figures[1].Strain())
	}
}
