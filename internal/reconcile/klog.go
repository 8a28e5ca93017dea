package reconcile

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// RouteClientLogs sends what client-go logs by itself (lost leases, informers that reconnect) to log, instead of to standard error
// in a form of its own. It sets a global of client-go's and is called once, before anything runs.
func RouteClientLogs(log *slog.Logger) { klog.SetSlogLogger(log.With("component", "client-go")) }
