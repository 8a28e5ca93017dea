package reconcile

import (
	"testing"

	"go.uber.org/goleak"

	"notifier/internal/reconcile/kube"
)

func TestMain(m *testing.M) {
	kube.RouteClientLogs(discard())
	goleak.VerifyTestMain(m)
}
