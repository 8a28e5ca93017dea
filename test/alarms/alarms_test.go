package alarms

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// cases has, for each alarm, series for which it fires and others for which it does not. Two hours are 240 values.
var cases = map[string]struct{ fires, quiet map[string][]string }{
	"NotifierHasNoWorker": {
		fires: map[string][]string{
			"no replica is the worker": {`notifier_worker{pod="a"} 1+0x180 0+0x60`, `notifier_worker{pod="b"} 0+0x241`},
			"no replica runs":          nil,
		},
		quiet: map[string][]string{
			"one of two is":          {`notifier_worker{pod="a"} 0+0x241`, `notifier_worker{pod="b"} 1+0x241`},
			"another has taken over": {`notifier_worker{pod="a"} 1+0x200 0+0x40`, `notifier_worker{pod="b"} 0+0x201 1+0x39`},
			"it ended just now":      {`notifier_worker{pod="a"} 1+0x238 0+0x2`},
		},
	},
	"NotifierRefusesSenders": {
		fires: map[string][]string{
			"webhooks are not stored": {`notifier_webhooks_total{type="github",result="unavailable"} 0+0x120 1+1x120`},
			"events are not stored":   {`notifier_event_posts_total{result="unavailable"} 0+1x240`},
			"it does not get started": {`notifier_event_posts_total{result="starting"} 0+1x240`},
		},
		quiet: map[string][]string{
			"it starts":                       {`notifier_webhooks_total{type="github",result="starting"} 0+0x232 1+1x8`},
			"senders are refused for a cause": {`notifier_webhooks_total{type="github",result="unauthentic"} 0+9x240`, `notifier_event_posts_total{result="over_budget"} 0+9x240`},
			"it was so an hour ago":           {`notifier_event_posts_total{result="unavailable"} 0+1x120 120+0x120`},
		},
	},
	"NotifierCannotImpersonate": {
		fires: map[string][]string{"it is refused": {`notifier_impersonation_refused 1+0x241`}},
		quiet: map[string][]string{
			"it is not":      {`notifier_impersonation_refused 0+0x241`},
			"it was at once": {`notifier_impersonation_refused 0+0x220 1+0x20`},
		},
	},
	"NotifierCannotReachAPI": {
		fires: map[string][]string{
			"no reconcile request is answered": {
				`notifier_apply_patches_total{result="ok"} 0+1x180 180+0x60`, `notifier_apply_patches_total{result="error"} 0+0x180 0+1x60`,
				`notifier_access_reviews_total{result="allowed"} 0+1x180 180+0x60`, `notifier_access_reviews_total{result="error"} 0+0x241`,
			},
			"no webhook comes, and no right is answered": {
				`notifier_apply_patches_total{result="ok"} 0+0x241`, `notifier_apply_patches_total{result="error"} 0+0x241`,
				`notifier_access_reviews_total{result="allowed"} 0+1x180 180+0x60`, `notifier_access_reviews_total{result="error"} 0+0x180 0+1x60`,
			},
		},
		quiet: map[string][]string{
			"a few fail beside others": {
				`notifier_apply_patches_total{result="ok"} 0+9x240`, `notifier_apply_patches_total{result="error"} 0+1x240`,
				`notifier_access_reviews_total{result="allowed"} 0+0x241`, `notifier_access_reviews_total{result="error"} 0+0x241`,
			},
			"tenants lack the right": {
				`notifier_apply_patches_total{result="refused"} 0+1x240`, `notifier_apply_patches_total{result="error"} 0+0x241`,
				`notifier_access_reviews_total{result="denied"} 0+1x240`, `notifier_access_reviews_total{result="error"} 0+0x241`,
			},
			"it was away for a minute": {
				`notifier_apply_patches_total{result="ok"} 0+0x241`, `notifier_apply_patches_total{result="error"} 0+0x210 0+1x2 2+0x28`,
				`notifier_access_reviews_total{result="allowed"} 0+0x213 1+1x27`, `notifier_access_reviews_total{result="error"} 0+0x241`,
			},
			"nothing is asked": {
				`notifier_apply_patches_total{result="ok"} 0+0x241`, `notifier_apply_patches_total{result="error"} 0+0x241`,
				`notifier_access_reviews_total{result="allowed"} 0+0x241`, `notifier_access_reviews_total{result="error"} 0+0x241`,
			},
		},
	},
	"NotifierCannotReviewUsers": {
		fires: map[string][]string{
			"no token is reviewed": {`notifier_api_token_reviews_total{result="error"} 0+0x200 1+1x40`, `notifier_api_right_reviews_total{result="error"} 0+0x241`},
			"tokens are, and no right": {
				`notifier_api_token_reviews_total{result="granted"} 0+1x240`, `notifier_api_token_reviews_total{result="error"} 0+0x241`,
				`notifier_api_right_reviews_total{result="error"} 0+0x200 1+1x40`,
			},
		},
		quiet: map[string][]string{
			"users are refused": {
				`notifier_api_token_reviews_total{result="refused"} 0+9x240`, `notifier_api_token_reviews_total{result="error"} 0+0x241`,
				`notifier_api_right_reviews_total{result="refused"} 0+9x240`, `notifier_api_right_reviews_total{result="error"} 0+0x241`,
			},
			"the API server was away for a minute": {`notifier_api_token_reviews_total{result="error"} 0+0x210 9+9x2 27+0x27`, `notifier_api_right_reviews_total{result="error"} 0+0x241`},
			"there is no API":                      nil,
		},
	},
	"NotifierPanicked": {
		fires: map[string][]string{
			"in a webhook":            {`notifier_webhook_panics_total 0+0x200 1+0x40`, `notifier_event_post_panics_total 0+0x241`},
			"in an event":             {`notifier_webhook_panics_total 0+0x241`, `notifier_event_post_panics_total 0+0x200 1+0x40`},
			"in the API, which is on": {`notifier_webhook_panics_total 0+0x241`, `notifier_event_post_panics_total 0+0x241`, `notifier_api_panics_total 0+0x200 1+0x40`},
			"in a send": {
				`notifier_webhook_panics_total 0+0x241`, `notifier_event_post_panics_total 0+0x241`,
				`notifier_deliveries_total{type="slack",outcome="retry",reason="panic"} 0+0x200 1+0x40`,
			},
			"in the reconcile of an object": {
				`notifier_webhook_panics_total 0+0x241`, `notifier_event_post_panics_total 0+0x241`,
				`notifier_reconcile_total{kind="Receiver",stage="compile",result="permanent"} 0+0x200 1+0x40`,
			},
		},
		quiet: map[string][]string{
			"nowhere": {
				`notifier_webhook_panics_total 0+0x241`, `notifier_event_post_panics_total 0+0x241`,
				`notifier_deliveries_total{type="slack",outcome="retry",reason="http_5xx"} 0+1x240`,
				`notifier_reconcile_total{kind="Receiver",stage="compile",result="retry"} 0+1x240`,
			},
			"long ago": {`notifier_webhook_panics_total 0+0x60 1+0x180`, `notifier_event_post_panics_total 0+0x241`},
		},
	},
	"NotifierRoutesLate": {
		fires: map[string][]string{
			"thousands wait":               {`notifier_events_unrouted{pod="a"} 5000+0x241`, `notifier_events_unrouted{pod="b"} 0+0x241`},
			"thousands wait for Receivers": {`notifier_events_unrouted 0+0x241`, `notifier_events_unread_by_receivers 5000+0x241`},
		},
		quiet: map[string][]string{
			"some wait":            {`notifier_events_unrouted 900+0x241`, `notifier_events_unread_by_receivers 900+0x241`},
			"thousands did before": {`notifier_events_unrouted 5000+0x235 100+0x5`},
		},
	},
	"NotifierRequestsLate": {
		fires: map[string][]string{"a fifth takes a minute": {
			`notifier_apply_latency_seconds_bucket{le="1"} 0+8x240`, `notifier_apply_latency_seconds_bucket{le="30"} 0+8x240`,
			`notifier_apply_latency_seconds_bucket{le="60"} 0+10x240`, `notifier_apply_latency_seconds_bucket{le="+Inf"} 0+10x240`,
		}},
		quiet: map[string][]string{
			"nearly all are quick": {
				`notifier_apply_latency_seconds_bucket{le="1"} 0+95x240`, `notifier_apply_latency_seconds_bucket{le="30"} 0+95x240`,
				`notifier_apply_latency_seconds_bucket{le="60"} 0+100x240`, `notifier_apply_latency_seconds_bucket{le="+Inf"} 0+100x240`,
			},
			"there are none": {`notifier_apply_latency_seconds_bucket{le="30"} 0+0x241`, `notifier_apply_latency_seconds_bucket{le="+Inf"} 0+0x241`},
		},
	},
	"NotifierDiskSlow": {
		fires: map[string][]string{"a fifth of one stream's syncs takes a second": {
			`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="0.5"} 0+8x240`, `notifier_stream_sync_seconds_bucket{stream="EVENTS",le="1"} 0+10x240`,
			`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="+Inf"} 0+10x240`,
			`notifier_stream_sync_seconds_bucket{stream="TRIGGERS",le="0.5"} 0+999x240`, `notifier_stream_sync_seconds_bucket{stream="TRIGGERS",le="+Inf"} 0+999x240`,
		}},
		quiet: map[string][]string{
			"nearly all are quick": {
				`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="0.1"} 0+95x240`, `notifier_stream_sync_seconds_bucket{stream="EVENTS",le="0.5"} 0+95x240`,
				`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="+Inf"} 0+100x240`,
			},
			"it was slow for ten minutes": {
				`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="0.5"} 0+10x220 2200+0x20`, `notifier_stream_sync_seconds_bucket{stream="EVENTS",le="1"} 0+10x240`,
				`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="+Inf"} 0+10x240`,
			},
			"there are none": {
				`notifier_stream_sync_seconds_bucket{stream="EVENTS",le="0.5"} 0+0x241`, `notifier_stream_sync_seconds_bucket{stream="EVENTS",le="+Inf"} 0+0x241`,
			},
		},
	},
	"NotifierDeliveriesNotStored": {
		fires: map[string][]string{
			"one delivery is tried again and again": {`notifier_delivery_bus_errors_total{pod="a"} 0+0x100 0+7x140`, `notifier_delivery_bus_errors_total{pod="b"} 0+0x241`},
		},
		quiet: map[string][]string{
			"all are stored":              {`notifier_delivery_bus_errors_total 0+0x241`},
			"there was a fail-over":       {`notifier_delivery_bus_errors_total 0+0x210 900+0x30`},
			"one call fails once a while": {`notifier_delivery_bus_errors_total 0+1x240`},
		},
	},
	"NotifierAtCapacity": {
		fires: map[string][]string{
			"webhooks are refused all the time": {`notifier_webhooks_total{type="github",result="busy"} 0+1x240`, `notifier_webhooks_total{type="github",result="accepted"} 0+9x240`},
			"too many targets wait":             {`notifier_webhooks_total{type="github",result="quota"} 0+1x240`},
			"events are over a budget":          {`notifier_event_posts_total{result="over_budget"} 0+1x240`},
			"many events are read at once":      {`notifier_event_posts_total{result="busy"} 0+1x240`},
		},
		quiet: map[string][]string{
			"it was a burst":                  {`notifier_webhooks_total{type="github",result="busy"} 0+0x200 0+99x10 990+0x30`},
			"senders are refused for a cause": {`notifier_webhooks_total{type="github",result="unknown_over_budget"} 0+9x240`, `notifier_event_posts_total{result="duplicate"} 0+9x240`},
		},
	},
	"NotifierGivesUpDeliveries": {
		fires: map[string][]string{"a destination refuses": {`notifier_deliveries_total{type="slack",outcome="dead",reason="http_4xx"} 0+0x200 1+0x40`}},
		quiet: map[string][]string{
			"nobody wants them":      {`notifier_deliveries_total{type="slack",outcome="dead",reason="owner_gone"} 0+1x240`, `notifier_deliveries_total{type="slack",outcome="dead",reason="suspended"} 0+1x240`},
			"they are tried again":   {`notifier_deliveries_total{type="slack",outcome="retry",reason="http_5xx"} 0+1x240`},
			"that was two hours ago": {`notifier_deliveries_total{type="slack",outcome="dead",reason="http_4xx"} 0+0x60 1+0x180`},
		},
	},
	"NotifierPutsMessagesAside": {
		fires: map[string][]string{"an event is none": {`notifier_messages_put_aside_total{stream="EVENTS"} 0+0x200 1+0x40`, `notifier_messages_put_aside_total{stream="TRIGGERS"} 0+0x241`}},
		quiet: map[string][]string{
			"none is":                {`notifier_messages_put_aside_total{stream="EVENTS"} 0+0x241`},
			"that was two hours ago": {`notifier_messages_put_aside_total{stream="EVENTS"} 0+0x60 1+0x180`},
		},
	},
	"NotifierDestinationDown": {
		fires: map[string][]string{"for two hours": {`notifier_oldest_undelivered_seconds{waits_for="destination"} 0+30x240`}},
		quiet: map[string][]string{
			"for half an hour": {`notifier_oldest_undelivered_seconds{waits_for="destination"} 0+0x180 0+30x60`},
			"a Provider is":    {`notifier_oldest_undelivered_seconds{waits_for="provider"} 0+30x240`},
			"it is back":       {`notifier_oldest_undelivered_seconds{waits_for="destination"} 0+30x239 0+0x1`},
		},
	},
	"NotifierProviderMissing": {
		fires: map[string][]string{"for two hours": {`notifier_oldest_undelivered_seconds{waits_for="provider"} 0+30x240`}},
		quiet: map[string][]string{
			"for half an hour": {`notifier_oldest_undelivered_seconds{waits_for="provider"} 0+0x180 0+30x60`},
			"a destination is": {`notifier_oldest_undelivered_seconds{waits_for="destination"} 0+30x240`},
		},
	},
	"NotifierDefinitionsReplaced": {
		fires: map[string][]string{"of one kind": {`notifier_definition_fields_missing{kind="Alert"} 4+0x241`, `notifier_definition_fields_missing{kind="Receiver"} 0+0x241`}},
		quiet: map[string][]string{
			"of none":  {`notifier_definition_fields_missing{kind="Alert"} 0+0x241`},
			"just now": {`notifier_definition_fields_missing{kind="Alert"} 0+0x220 4+0x20`},
			"of another in turn": {
				`notifier_definition_fields_missing{kind="Alert"} 0+0x220 4+0x20`, `notifier_definition_fields_missing{kind="Receiver"} 4+0x220 0+0x20`,
			},
		},
	},
	// The series end at 7200, in seconds since 1970.
	"NotifierWithoutSVID": {
		fires: map[string][]string{
			"of one of two": {`notifier_spiffe_svid_expiry_timestamp_seconds{pod="a"} 0+0x241`, `notifier_spiffe_svid_expiry_timestamp_seconds{pod="b"} 9000+0x241`},
			"it expired":    {`notifier_spiffe_svid_expiry_timestamp_seconds 7000+0x241`},
		},
		quiet: map[string][]string{
			"it was renewed":    {`notifier_spiffe_svid_expiry_timestamp_seconds 7200+0x200 10800+0x40`},
			"it has just begun": {`notifier_spiffe_svid_expiry_timestamp_seconds 9000+0x237 0+0x3`},
			"no peer is named":  {`up 1+0x241`},
		},
	},
	"NotifierCertificateExpires": {
		fires: map[string][]string{
			"in six days": {`notifier_tls_certificate_expiry_timestamp_seconds{listener="webhooks"} 525600+0x241`},
			"it has":      {`notifier_tls_certificate_expiry_timestamp_seconds{listener="api"} 3600+0x241`},
		},
		quiet: map[string][]string{
			"in eight days": {`notifier_tls_certificate_expiry_timestamp_seconds{listener="webhooks"} 698400+0x241`},
		},
	},
}

// alarmRow is a row of the table of alarms in the documentation: the alarm, its cost, what to look at, and what to do.
var alarmRow = regexp.MustCompile(`(?m)^\| ` + "`(Notifier\\w+)`" + ` \|[^|\n]{6,}\|[^|\n]{6,}\|[^|\n]{6,}\|$`)

// Fails when an alarm wakes somebody, and the documentation does not say what it costs, what to look at and what to do; or when it says so of
// an alarm that does not exist.
func TestEachAlarmIsInTheTableOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, row := range alarmRow.FindAllStringSubmatch(string(page), -1) {
		told = append(told, row[1])
	}
	slices.Sort(told)
	if has := slices.Sorted(maps.Keys(rules(t))); !slices.Equal(has, told) {
		t.Errorf("alarms: %q\nin docs/operations.md: %q", has, told)
	}
}

// Fails when an alarm does not fire for what it is about, fires for something else, or has no series here.
func TestEachAlarmFiresForWhatItIsAboutAlone(t *testing.T) {
	all := rules(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of, tested := cases[name]
		if !tested || len(of.fires) == 0 || len(of.quiet) == 0 {
			t.Errorf("%s has no series", name)
			continue
		}
		for what, series := range of.fires {
			if !all[name].fires(t, series) {
				t.Errorf("%s does not fire: %s", name, what)
			}
		}
		for what, series := range of.quiet {
			if all[name].fires(t, series) {
				t.Errorf("%s fires: %s", name, what)
			}
		}
	}
	for name := range cases {
		if _, there := all[name]; !there {
			t.Errorf("there is no alarm %s", name)
		}
	}
}
