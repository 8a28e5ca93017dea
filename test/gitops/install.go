package gitops

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"notifier/test/env"
)

const (
	sourceModule    = "github.com/fluxcd/source-controller"
	kustomizeModule = "github.com/fluxcd/kustomize-controller"

	// The namespaces are those of config/default of each; their service account is "default".
	sourceNamespace    = "source-system"
	kustomizeNamespace = "kustomize-system"
	account            = "default"

	// pins is the directory, below that of this module, of the module that names the versions to build.
	pins = "flux"
)

// Install writes the definitions and the roles of both controllers. Call it before [env.InstallOn], which would write
// stand-ins for the definitions.
func Install(ctx context.Context, cluster *env.Cluster) error {
	for module, namespace := range map[string]string{sourceModule: sourceNamespace, kustomizeModule: kustomizeNamespace} {
		if _, err := cluster.Namespace(ctx, namespace); err != nil {
			return err
		}
		text, err := manifests(ctx, module, namespace)
		if err != nil {
			return err
		}
		if _, err := cluster.Apply(ctx, text); err != nil {
			return fmt.Errorf("install %s: %w", module, err)
		}
	}
	return nil
}

// manifests builds config/crd and config/rbac of a module for a namespace.
func manifests(ctx context.Context, module, namespace string) (string, error) {
	from, err := moduleDir(ctx, module)
	if err != nil {
		return "", err
	}
	overlay, err := env.TempDir("flux")
	if err != nil {
		return "", err
	}
	if overlay, err = filepath.EvalSymlinks(overlay); err != nil {
		return "", err
	}
	config, err := filepath.Rel(overlay, filepath.Join(from, "config")) // kustomize takes no absolute path
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("namespace: %s\nresources: [%s/crd, %s/rbac]\n", namespace, config, config)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		return "", err
	}
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return "", fmt.Errorf("manifests of %s: %w", module, err)
	}
	all, err := m.AsYaml()
	return string(all), err
}

// moduleDir returns the directory of a module in the module cache, into which a build has put it.
func moduleDir(ctx context.Context, module string) (string, error) {
	dir, err := env.ModuleDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, pins)
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w\n%s", module, err, stderr.String())
	}
	found := strings.TrimSpace(string(out))
	if found == "" {
		return "", fmt.Errorf("%s is not in the module cache", module)
	}
	return filepath.EvalSymlinks(found)
}
