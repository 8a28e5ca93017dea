package env

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Response is a complete answer.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request and reads the whole answer.
func (n *Notifier) Do(ctx context.Context, method, url string, header http.Header, body []byte) (Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	maps.Copy(req.Header, header)
	resp, err := n.HTTP.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return Response{Status: resp.StatusCode, Header: resp.Header, Body: string(answer)}, err
}

// Post sends an event as a Flux controller does.
func (n *Notifier) Post(ctx context.Context, event any) (Response, error) {
	body, err := json.Marshal(event)
	if err != nil {
		return Response{}, err
	}
	return n.Do(ctx, http.MethodPost, n.EventsURL+"/", http.Header{"Content-Type": {"application/json"}}, body)
}

// Metric returns the sum of a metric's samples whose labels contain all the given pairs ("type", "github", …); for a
// histogram, the number of observations. A metric that does not exist is 0.
func (n *Notifier) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	resp, err := n.HTTP.Get(n.MetricsURL + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && strings.EqualFold(has[labels[i]], labels[i+1])
		}
		if matches {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum, nil
}

// HookPath returns the path of a Receiver by Flux's formula.
func HookPath(token, name, namespace string) string {
	sum := sha256.Sum256([]byte(token + name + namespace))
	return "/hook/" + hex.EncodeToString(sum[:])
}
