package destinations

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"testing"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

const (
	pins         = "vendors"
	alertmanager = "github.com/prometheus/alertmanager"
	otlpReceiver = "go.opentelemetry.io/collector/receiver/otlpreceiver"
)

// programs are the paths of the compiled programs.
type programs struct{ alertmanager, collector string }

func build(ctx context.Context) (p programs, err error) {
	if p.alertmanager, err = env.BuildPinned(ctx, pins, alertmanager+"/cmd/alertmanager"); err != nil {
		return p, err
	}
	p.collector, err = env.BuildPinned(ctx, pins, "./otlpsink")
	return p, err
}

// Fails when the built version is not a released one.
func TestTheVendorsAreReleases(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), env.OpenTimeout)
	defer cancel()
	built, err := build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(built.alertmanager)
	if err != nil {
		t.Fatal(err)
	}
	if m := info.Main; m.Path != alertmanager || m.Version != "v0.31.1" || m.Sum == "" || m.Replace != nil {
		t.Errorf("alertmanager is built from %+v", m)
	}
	if info, err = buildinfo.ReadFile(built.collector); err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if m.Path == otlpReceiver && m.Version == "v0.162.0" && m.Sum != "" && m.Replace == nil {
			return
		}
	}
	t.Errorf("the collector is built without the release of %s", otlpReceiver)
}

// shared are a notifier and the programs, which its tenants may send to.
type shared struct {
	notifier *env.Notifier
	// alerts is the address of Alertmanager's API for alerts, traces that of the collector.
	alerts, traces string
	collector      *env.Process
}

var open = env.Shared(func(ctx context.Context) (*shared, error) {
	built, err := build(ctx)
	if err != nil {
		return nil, err
	}
	w, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	s := &shared{}
	if s.notifier, err = w.Start(ctx, env.NotifierOptions{}); err != nil {
		return nil, err
	}
	if err := s.startAlertmanager(ctx, built.alertmanager); err != nil {
		return nil, err
	}
	return s, s.startCollector(ctx, built.collector)
})

// local returns a free address on loopback.
func local() (string, error) {
	ports, err := env.FreePorts(1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0]), nil
}

// fixture is the start of one test.
type fixture struct {
	*env.Fixture
	*shared
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	all, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Fixture: env.NewFixture(t, all.notifier.System(), all.notifier), shared: all}
}

// hostile is a text with characters that are special in some format on its way.
const hostile = "\"quoted\" \\ <b>&amp;</b> {{ .Status }} $(id)\nsecond line, é 💥"
