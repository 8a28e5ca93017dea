package crds

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The notification-controller whose definitions FluxNotification returns. The sum pins them, as go.sum would pin code
// that is imported.
const (
	fluxModule = "github.com/fluxcd/notification-controller@v1.9.0"
	fluxSum    = "h1:5QXx9L27Z6iFAST9pLp/+sU8J1EUYjktMT5zmKR+Q1U="
)

// FluxNotification returns Flux's own definitions of Receivers, Alerts and Providers as one YAML stream, from the source of its
// notification-controller, which is fetched once.
func FluxNotification(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", fluxModule)
	cmd.Dir = os.TempDir() // outside this module, whose go.mod must list only imports
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GONOSUMDB=github.com/fluxcd/*")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w\n%s", fluxModule, err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	if module.Sum != fluxSum {
		return "", fmt.Errorf("%s has the sum %s, want %s", fluxModule, module.Sum, fluxSum)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) != 3 {
		return "", fmt.Errorf("%s has %d definitions, want 3: %w", fluxModule, len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	return all.String(), nil
}
