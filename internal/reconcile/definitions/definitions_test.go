package definitions

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// fakeDefinitions are a cluster's definitions, by name.
type fakeDefinitions struct {
	mu    sync.Mutex
	files map[string]string
	err   error
}

// ours returns the definitions of config/crd.
func ours(t *testing.T) *fakeDefinitions {
	t.Helper()
	files := map[string]string{}
	for _, def := range definitions {
		plural, group, _ := strings.Cut(def.name, ".")
		text, err := os.ReadFile(filepath.Join("../../../config/crd/bases", group+"_"+plural+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files[def.name] = string(text)
	}
	return &fakeDefinitions{files: files}
}

func (f *fakeDefinitions) get(_ context.Context, name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.files[name]
	switch {
	case f.err != nil:
		return nil, f.err
	case !ok:
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}}
	}
	return yaml.YAMLToJSON([]byte(text))
}

// change replaces a part of a definition.
func (f *fakeDefinitions) change(t *testing.T, name, old, with string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !strings.Contains(f.files[name], old) {
		t.Fatalf("%s has no %q", name, old)
	}
	f.files[name] = strings.ReplaceAll(f.files[name], old, with)
}

// Fails when a field is searched for in the wrong place, when a missing field is not reported, or when a state is logged twice. Fails
// when a corrected fault is still reported, or when an API server that does not answer counts as a fault of the definitions.
func TestDefinitionsThatLackFieldsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, whole := ours(t), ours(t)
		var log strings.Builder
		d, err := New(Options{
			Get: f.get, Every: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)), Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Whole(); err == nil {
			t.Error("whole before it was read")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		want := func(words string, lines int) {
			t.Helper()
			<-time.After(10 * time.Minute)
			synctest.Wait()
			got := ""
			if err := d.Whole(); err != nil {
				got = err.Error()
			}
			if got != words {
				t.Errorf("got  %q\nwant %q", got, words)
			}
			if n := strings.Count(log.String(), "definitions are"); n != lines {
				t.Errorf("told %d times, want %d", n, lines)
			}
		}
		again := ": apply config/crd of this version again"
		want("", 0)
		f.change(t, "receivers.notification.toolkit.fluxcd.io", "\n              serviceAccountName:", "\n              another:")
		f.change(t, "receivers.notification.toolkit.fluxcd.io", "\n                    matchExpressions:", "\n                    another:")
		text := "receivers.notification.toolkit.fluxcd.io lacks spec.resources[].matchExpressions, spec.serviceAccountName"
		want(text+again, 1)
		f.change(t, "alerts.notification.toolkit.fluxcd.io", "\n      status: {}", "\n      other: {}")
		text += "; alerts.notification.toolkit.fluxcd.io lacks status"
		want(text+again, 2)
		f.change(t, "providers.notification.toolkit.fluxcd.io", "name: v1beta3", "name: v2")
		want(text+"; providers.notification.toolkit.fluxcd.io lacks version v1beta3"+again, 3)
		f.mu.Lock()
		f.err = errors.New("away")
		f.mu.Unlock()
		want(text+"; providers.notification.toolkit.fluxcd.io lacks version v1beta3"+again, 3)
		f.mu.Lock()
		f.err = nil
		delete(f.files, "providers.notification.toolkit.fluxcd.io")
		f.mu.Unlock()
		want(text+"; providers.notification.toolkit.fluxcd.io lacks version v1beta3"+again, 3)
		f.mu.Lock()
		delete(f.files, "receivers.notification.toolkit.fluxcd.io")
		f.mu.Unlock()
		text = "receivers.notification.toolkit.fluxcd.io lacks version v1; alerts.notification.toolkit.fluxcd.io lacks status"
		want(text+"; providers.notification.toolkit.fluxcd.io lacks version v1beta3"+again, 4)
		for _, def := range definitions {
			if n := testutil.ToFloat64(d.lacking.WithLabelValues(def.kind)); n != 1 {
				t.Errorf("%v fields of %s are counted as missing", n, def.kind)
			}
		}
		f.mu.Lock()
		maps.Copy(f.files, whole.files)
		f.mu.Unlock()
		want("", 5)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
