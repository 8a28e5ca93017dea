package reconcile

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RouteClientLogs(discard())
	goleak.VerifyTestMain(m)
}
