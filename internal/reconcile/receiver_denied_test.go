package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "notifier/api/v1"
)

// Fails when the Event is missing, is repeated without a change, or when its reason is not that of the most urgent denial.
func TestADenialIsReportedByAnEventOnceForEachChange(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		w.events.take()
		denied := func(reason, kind, message string) string {
			return fmt.Sprintf(`{"serviceAccount":"weak","resource":"%ss","kind":%q,"object":"app","reason":%q,"message":%q}`,
				kind, kind, reason, message)
		}
		for _, step := range []struct {
			denied []string
			want   string // of the condition
			events []string
		}{
			{
				[]string{denied("Forbidden", "Bucket", "no Role")},
				`True Forbidden: service account "weak" may not patch Buckets "app": no Role`,
				[]string{`Warning Forbidden: service account "weak" may not patch Buckets "app": no Role`},
			},
			{
				[]string{denied("KindNotFound", "Bucket", "not served"), denied("Forbidden", "Git", "no Role")},
				`True KindNotFound: Bucket "app" cannot be written: not served; service account "weak" may not patch Gits "app": no Role`,
				[]string{`Warning KindNotFound: Bucket "app" cannot be written: not served; service account "weak" may not patch Gits "app": no Role`},
			},
			{
				[]string{denied("ServiceAccountNotFound", "Bucket", "no account"), denied("ServiceAccountNotFound", "Git", "no account")},
				"True ServiceAccountNotFound: no account",
				[]string{"Warning ServiceAccountNotFound: no account"},
			},
			{
				[]string{denied("ServiceAccountNotFound", "Git", "no account"), denied("ImpersonationRefused", "Git", "old")},
				"True ImpersonationRefused: no account; old",
				[]string{"Warning ImpersonationRefused: no account; old"},
			},
			{nil, "False Succeeded: no write is being refused", nil},
		} {
			value := `{"uid":"uid-app","denied":[` + strings.Join(step.denied, ",") + `]}`
			for i := range 2 { // the second report is unchanged, though the status is written
				w.feed.put("Receiver/team-a/app", value)
				w.settle()
				r := w.live("Receiver", "app").DeepCopyObject().(*v1.Receiver)
				r.Annotations = map[string]string{v1.ReconcileRequestAnnotation: fmt.Sprint(step.want, i)}
				if err := w.cluster.Tracker.Update(resources["Receiver"], r, "team-a"); err != nil {
					t.Fatal(err)
				}
				w.settle()
			}
			pass(time.Hour)
			short, message := w.condition("Receiver", "app", v1.WriteDeniedCondition)
			if got := short + ": " + message; got != step.want {
				t.Errorf("condition: got  %q\nwant %q", got, step.want)
			}
			var events []string
			for _, e := range w.events.take() {
				events = append(events, strings.TrimPrefix(e, "Receiver team-a/app uid-app "))
			}
			if strings.Join(events, "\n") != strings.Join(step.events, "\n") {
				t.Errorf("events: got %q, want %q", events, step.events)
			}
		}
	})
}
