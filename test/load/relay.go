package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"notifier/test/env"
)

// posted is an event as Flux's controllers POST it.
type posted struct {
	InvolvedObject      corev1.ObjectReference `json:"involvedObject"`
	Severity            string                 `json:"severity"`
	Timestamp           string                 `json:"timestamp"`
	Message             string                 `json:"message"`
	Reason              string                 `json:"reason"`
	Metadata            map[string]string      `json:"metadata,omitempty"`
	ReportingController string                 `json:"reportingController"`
	ReportingInstance   string                 `json:"reportingInstance,omitempty"`
}

// relayConnections are the connections to the destination that a relay keeps.
const relayConnections = 256

// StartRelay starts the baseline of events and returns its base URL. It decodes an event, posts it to the sink and
// answers 202: the least that a process can do for an event with net/http. It keeps nothing, so a crash loses the events
// in flight.
func StartRelay(ctx context.Context, sink string) (*env.Process, string, error) {
	return start(ctx, "relay", sink)
}

func relay(sink string) (http.Handler, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: relayConnections, MaxIdleConnsPerHost: relayConnections}}
	var ids atomic.Int64
	on := func(r *http.Request) error {
		var e posted
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&e); err != nil {
			return err
		}
		body, err := json.Marshal(e)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, sink, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "relay-"+strconv.FormatInt(ids.Add(1), 10))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("the sink answered %d", resp.StatusCode)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := on(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}), nil
}
