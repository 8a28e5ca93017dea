// Package definitions compares the definitions of the three kinds in the cluster with the Go types of this program. The API server drops
// the fields that a definition lacks, silently: an installation of Flux over this one drops spec.serviceAccountName, for example.
package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/fair"
)

// Options configure a Checker. All are required.
type Options struct {
	// Get reads a custom resource's definition by its name, as JSON.
	Get func(ctx context.Context, name string) ([]byte, error)
	// Every is how often the definitions are read.
	Every      time.Duration
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Checker reports whether the definitions in the cluster have all fields of the three kinds.
type Checker struct {
	options Options
	lacking *prometheus.GaugeVec
	// words name the faults at the last read, nil before the first.
	words atomic.Pointer[string]
}

// definition names the compared parts of one kind: the version that this program reads, and its Go type.
type definition struct {
	kind, name, version string
	object              reflect.Type
}

var definitions = []definition{
	{v1.ReceiverKind, "receivers." + v1.Group, v1.GroupVersion.Version, reflect.TypeFor[v1.Receiver]()},
	{v1.AlertKind, "alerts." + v1.Group, v1beta3.GroupVersion.Version, reflect.TypeFor[v1.Alert]()},
	{v1.ProviderKind, "providers." + v1.Group, v1beta3.GroupVersion.Version, reflect.TypeFor[v1.Provider]()},
}

// New returns a Checker and registers its metric. It returns an error if an option is missing.
func New(o Options) (*Checker, error) {
	if o.Get == nil || o.Every <= 0 || o.Log == nil || o.Registerer == nil {
		return nil, errors.New("definitions: an option is missing")
	}
	c := &Checker{options: o, lacking: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "notifier_definition_fields_missing",
		Help: "Fields of the kind that its definition in the cluster lacks, so that the API server drops them.",
	}, []string{"kind"})}
	for _, def := range definitions {
		c.lacking.WithLabelValues(def.kind)
	}
	o.Registerer.MustRegister(c.lacking)
	return c, nil
}

const (
	// definitionsRetry is the pause after a failed read. definitionsTimeout bounds the read of all definitions.
	definitionsRetry   = 10 * time.Second
	definitionsTimeout = 30 * time.Second
	// maxMissing bounds the missing fields of one kind that are named.
	maxMissing = 8
)

// Run reads the definitions at once and then every Every, until ctx ends. It returns nil.
func (c *Checker) Run(ctx context.Context) error {
	for {
		pause := c.options.Every + rand.N(c.options.Every/10+1)
		if err := c.check(ctx); err != nil && ctx.Err() == nil {
			c.options.Log.Warn("definitions not read, it will be tried again", "error", err)
			pause = min(pause, definitionsRetry)
		}
		if fair.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// check compares all definitions, and logs a change.
func (c *Checker) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, definitionsTimeout)
	defer cancel()
	var faults []string
	for _, def := range definitions {
		body, err := c.options.Get(ctx, def.name)
		if apierrors.IsNotFound(err) {
			body, err = []byte("{}"), nil // it lacks the version, and the metric says so too
		}
		if err != nil {
			return err
		}
		missing, err := def.missing(body)
		if err != nil {
			return err
		}
		c.lacking.WithLabelValues(def.kind).Set(float64(len(missing)))
		if n := len(missing); n > 0 {
			text := def.name + " lacks " + strings.Join(missing[:min(n, maxMissing)], ", ")
			if n > maxMissing {
				text += fmt.Sprintf(" and %d more", n-maxMissing)
			}
			faults = append(faults, text)
		}
	}
	words := strings.Join(faults, "; ")
	if words != "" {
		words += ": apply config/crd of this version again"
	}
	before := cmp.Or(c.words.Swap(&words), new(string))
	switch {
	case words == *before:
	case words != "":
		c.options.Log.Warn("the cluster's definitions are not this version's, and what they lack is dropped", "reason", words)
	default:
		c.options.Log.Info("the cluster's definitions are this version's now")
	}
	return nil
}

// Whole returns an error that names the fields that the cluster's definitions lack, or nil. It returns an error until the definitions
// have been read.
func (c *Checker) Whole() error {
	switch words := c.words.Load(); {
	case words == nil:
		return errors.New("not read yet")
	case *words != "":
		return errors.New(*words)
	}
	return nil
}

// shape is the compared part of a definition's schema.
type shape struct {
	Properties map[string]*shape `json:"properties"`
	Items      *shape            `json:"items"`
	// Preserve reports that the API server keeps unknown fields.
	Preserve bool `json:"x-kubernetes-preserve-unknown-fields"`
}

// missing returns the paths of the fields that a definition does not keep, in the order of the Go type.
func (def definition) missing(body []byte) ([]string, error) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Name         string
				Served       bool
				Schema       struct{ OpenAPIV3Schema *shape }
				Subresources struct{ Status *struct{} }
			}
		}
	}
	if err := json.Unmarshal(body, &crd); err != nil {
		return nil, fmt.Errorf("definition %s: %w", def.name, err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Name != def.version || !version.Served {
			continue
		}
		at := cmp.Or(version.Schema.OpenAPIV3Schema, &shape{})
		spec, status := at.Properties["spec"], at.Properties["status"]
		if version.Subresources.Status == nil {
			status = nil // without the subresource, status is kept but cannot be written
		}
		field := func(name string) reflect.Type {
			f, _ := def.object.FieldByName(name)
			return f.Type
		}
		return slices.Concat(lacks(field("Spec"), spec, "spec"), lacks(field("Status"), status, "status")), nil
	}
	return []string{"version " + def.version}, nil
}

// lacks returns the paths of a type's fields that the schema does not have. Of a missing struct it names the struct and no fields.
func lacks(t reflect.Type, s *shape, path string) []string {
	if s == nil {
		return []string{path}
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			if s = s.Items; s == nil {
				return nil
			}
			path += "[]"
		}
		t = t.Elem()
	}
	if s.Preserve || t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), apiPackages) {
		return nil
	}
	var paths []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // inline
			paths = append(paths, lacks(f.Type, s, path)...)
			continue
		}
		paths = append(paths, lacks(f.Type, s.Properties[name], path+"."+name)...)
	}
	return paths
}

// apiPackages is the path prefix of the packages whose types are compared field by field. Kubernetes' own types are not compared.
var apiPackages = strings.TrimSuffix(reflect.TypeFor[v1.Receiver]().PkgPath(), "v1")
