package app

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// logSettings logs settings that have another effect than their author may expect.
func logSettings(log *slog.Logger, o Options, env func(string) string) {
	for _, name := range slices.Sorted(maps.Keys(o.AcceptedFlags)) {
		log.Info("a flag of Flux's notification-controller is accepted", "flag", name, "meaning", o.AcceptedFlags[name])
	}
	if o.DefaultServiceAccount != DefaultOptions().DefaultServiceAccount {
		log.Info("this account writes for Receivers without spec.serviceAccountName; in Flux's notification-controller the flag names the "+
			"account with which Providers log in at a cloud, which here is their spec.serviceAccountName alone",
			"flag", "default-service-account", "account", o.DefaultServiceAccount)
	}
	var set []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		if env(name) != "" {
			set = append(set, name) // without its value, which may contain a password
		}
	}
	if len(set) > 0 && !o.EnvironmentProxy {
		log.Warn("destinations of Providers are not reached through the environment's proxy; "+
			"--destinations-use-environment-proxy has them reached through it", "set", strings.Join(set, ", "))
	}
}
