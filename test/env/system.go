package env

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"notifier/test/crds"
)

const (
	// SystemNamespace is the namespace in which config/default puts the process.
	SystemNamespace = "notification-system"
	// ServiceAccount is the service account of the process.
	ServiceAccount = "notifier"
)

// System is a cluster with the product installed and its program built.
type System struct {
	*Cluster
	// Program is the path of the notifier binary.
	Program string
}

// InstallOn installs the product and the stand-ins for Flux's kinds on the cluster and builds the notifier; with race, it is
// built with the race detector where a C compiler is present.
func InstallOn(ctx context.Context, cluster *Cluster, race bool) (*System, error) {
	if err := crds.Install(ctx, cluster.Config); err != nil {
		return nil, fmt.Errorf("stand-in definitions: %w", err)
	}
	program, err := BuildProgram(ctx, "./cmd/notifier", race)
	if err != nil {
		return nil, err
	}
	w := &System{Cluster: cluster, Program: program}
	return w, w.Reinstall(ctx)
}

// NewSystem is InstallOn on a control plane of its own.
func NewSystem(ctx context.Context, race bool) (*System, error) {
	cluster, err := StartControlPlane(ctx, ClusterOptions{})
	if err != nil {
		return nil, err
	}
	return InstallOn(ctx, cluster, race)
}

// Reinstall applies config/default except the objects that need a kubelet or a volume.
func (w *System) Reinstall(ctx context.Context) error {
	manifests, err := Manifests("default")
	if err != nil {
		return err
	}
	var apply []string
	for _, r := range manifests.Resources() {
		switch r.GetKind() {
		case "Deployment", "PersistentVolumeClaim":
			continue // no kubelet here: the process runs beside the API server
		}
		y, err := r.AsYAML()
		if err != nil {
			return err
		}
		apply = append(apply, string(y))
	}
	if _, err := w.Apply(ctx, strings.Join(apply, "---\n")); err != nil {
		return fmt.Errorf("install config/default: %w", err)
	}
	return nil
}

// Manifests builds one of the kustomizations under config/ as `kubectl kustomize` does.
func Manifests(name string) (resmap.ResMap, error) {
	dir, err := ProductDir()
	if err != nil {
		return nil, err
	}
	m, err := Kustomize(filepath.Join(dir, "config", name))
	if err != nil {
		return nil, fmt.Errorf("build config/%s: %w", name, err)
	}
	return m, nil
}

// Kustomize builds the kustomization of a directory.
func Kustomize(dir string) (resmap.ResMap, error) {
	return krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
}
