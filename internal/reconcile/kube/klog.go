package kube

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// RouteClientLogs sends the log lines of client-go (lost leases, informers that reconnect) to log, instead of to standard error in a form
// of their own. It sets a global variable of client-go, so it is called once, before anything runs.
func RouteClientLogs(log *slog.Logger) { klog.SetSlogLogger(log.With("component", "client-go")) }
