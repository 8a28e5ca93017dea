package app

import (
	"bytes"
	"strings"
	"testing"
)

// Fails when an unused proxy in the environment causes no warning, and when the warning is logged although there is no proxy or it is used.
// Also fails when the proxy's address, which may contain a password, is logged.
func TestAProxyThatIsSetAndNotUsedIsWarnedOfAtStart(t *testing.T) {
	for name, tc := range map[string]struct {
		env    map[string]string
		used   bool
		warned string
	}{
		"the name that Deployments use": {map[string]string{"HTTPS_PROXY": "http://user:hush@proxy"}, false, "HTTPS_PROXY"},
		"both, in lower case":           {map[string]string{"https_proxy": "hush", "http_proxy": "hush"}, false, "https_proxy, http_proxy"},
		"one that is used":              {map[string]string{"HTTPS_PROXY": "hush"}, true, ""},
		"none":                          {map[string]string{"NO_PROXY": "*"}, false, ""},
	} {
		var log bytes.Buffer
		o := DefaultOptions()
		o.EnvironmentProxy = tc.used
		logSettings(newLogger(&log, "info", "json"), o, func(name string) string { return tc.env[name] })
		got := log.String()
		if (got != "") != (tc.warned != "") || strings.Contains(got, "hush") ||
			tc.warned != "" && (!strings.Contains(got, `"set":"`+tc.warned+`"`) || !strings.Contains(got, "--destinations-use-environment-proxy")) {
			t.Errorf("%s: logged %q", name, got)
		}
	}
}

// Fails when a flag that has another meaning in Flux is accepted without a word.
func TestAnAccountThatIsSetIsExplainedAtStart(t *testing.T) {
	for account, says := range map[string]string{DefaultOptions().DefaultServiceAccount: "", "flux": `"account":"flux"`} {
		var log bytes.Buffer
		o := DefaultOptions()
		o.DefaultServiceAccount = account
		logSettings(newLogger(&log, "info", "json"), o, func(string) string { return "" })
		if got := log.String(); (got != "") != (says != "") || !strings.Contains(got, says) {
			t.Errorf("%s: logged %q", account, got)
		}
	}
}
