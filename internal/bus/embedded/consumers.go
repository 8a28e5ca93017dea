package embedded

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// dropConsumers removes the files of each consumer that the server could not read. They are not synced, so a loss of power may leave anything
// in them, and beside them the server refuses to make the consumer. A consumer that is made anew hands out all that its stream has.
func dropConsumers(srv *server.Server, dataDir string, log *slog.Logger) error {
	root := filepath.Join(dataDir, serverDir, accountDir)
	dirs, err := fs.Glob(os.DirFS(root), path.Join("*", consumerDir, "*"))
	if err != nil {
		return fmt.Errorf("list consumers: %w", err)
	}
	for _, dir := range dirs {
		stream, consumer := path.Dir(path.Dir(dir)), path.Base(dir)
		health := srv.Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream, Consumer: consumer, Details: true})
		if !slices.ContainsFunc(health.Errors, func(e server.HealthzError) bool { return e.Type == server.HealthzErrorConsumer }) {
			continue
		}
		log.Warn("a consumer cannot be read and is made anew, so all that waits in its stream is handed out", "stream", stream, "consumer", consumer)
		if err := os.RemoveAll(filepath.Join(root, dir)); err != nil {
			return fmt.Errorf("remove consumer: %w", err)
		}
	}
	return nil
}
