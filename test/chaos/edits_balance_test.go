package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// arrival is a delivery at the sink.
type arrival struct {
	delivery
	id      string
	object  string
	number  int
	address int
	at      time.Time
}

// deliveriesOf returns what the sink took.
func deliveriesOf(t *testing.T, sink *env.Sink) []arrival {
	t.Helper()
	var all []arrival
	for _, r := range sink.Received() {
		if r.Status != http.StatusOK {
			continue
		}
		var event struct {
			Message  string
			Metadata map[string]string
		}
		if err := json.Unmarshal(r.Body, &event); err != nil {
			t.Error(err)
			continue
		}
		parts := strings.Split(r.Path, "/") // "", namespace, provider, address
		a := arrival{delivery: delivery{parts[1], parts[2], event.Metadata["alert"], event.Message}, id: r.Header.Get(deliveryIDHeader), at: r.Time}
		if _, err := fmt.Sscan(parts[3], &a.address); err != nil {
			t.Error(err)
		}
		if a.provider == always {
			a.alert = always
		}
		if _, err := fmt.Sscanf(event.Message, parts[1]+" %s %d", &a.object, &a.number); err != nil {
			t.Errorf("E1: an event of another namespace arrived at %s: %q", r.Path, event.Message)
		}
		all = append(all, a)
	}
	return all
}

// balance compares all arrivals: none that no Alert makes, none out of order, none twice but around a crash.
func (e *edits) balance() {
	type line struct{ namespace, provider, object string }
	first, last := map[delivery]arrival{}, map[line]arrival{}
	twice := 0
	arrivals := deliveriesOf(e.t, e.sink)
	for _, a := range arrivals {
		if e.never[a.delivery] {
			e.t.Errorf("E1: arrived, which no Alert sends: %+v", a)
		}
		if a.address < e.least[a.delivery] {
			e.t.Errorf("sent to the address of a Secret before the last: %+v", a)
		}
		earlier, again := first[a.delivery]
		if again {
			twice++
			e.explained(earlier, a)
			continue
		}
		first[a.delivery] = a
		of := line{a.namespace, a.provider, a.object}
		if before := last[of]; before.number > a.number && !e.routedAnew(a) {
			e.t.Errorf("E4: %v %s after %v, accepted %s", a.delivery, a.at.Format("05.000"), before.delivery, e.accepted[a.message].Format("05.000"))
		}
		last[of] = a
	}
	e.t.Logf("%d arrived, %d twice, %d crashes", len(arrivals), twice, len(e.crashes))
}

// routedAnew reports whether a crash had an event routed by what its Alert or Provider was edited to: events that wait for a destination of
// their Alerts are routed again after a crash, by the specs of then.
func (e *edits) routedAnew(a arrival) bool {
	accepted := e.accepted[a.message].Add(-recorded)
	changed := func(name string) bool {
		return slices.ContainsFunc(e.edited[a.namespace+name], func(edit *edited) bool { return edit.until.After(accepted) && edit.from.Before(a.at) })
	}
	crashed := slices.ContainsFunc(e.crashes, func(c crash) bool { return c.over.After(accepted) && c.at.Before(a.at) })
	return crashed && (changed(a.alert) || changed(a.provider))
}

func (e *edits) explained(earlier, again arrival) {
	if earlier.id != again.id {
		e.t.Errorf("E3: %+v came again with the ID %s", earlier, again.id)
	}
	for _, c := range e.crashes {
		if c.around(earlier.at, again.at) {
			return
		}
	}
	e.t.Errorf("E3: %+v came twice, again at %s, with no crash between", earlier, again.at)
}
