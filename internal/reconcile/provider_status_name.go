package reconcile

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/receiver/cel"
	"notifier/internal/reconcile/kube"
)

const statusNameField = "spec.commitStatusExpr"

// The variables of spec.commitStatusExpr, the same as Flux's.
const (
	varEvent    = "event"
	varAlert    = "alert"
	varProvider = "provider"
)

// statusNamer evaluates a Provider's spec.commitStatusExpr.
type statusNamer struct {
	program *cel.Program
	// provider is the Provider as an unstructured object, without its status.
	provider map[string]any
	// namespace is the namespace of the Provider and its Alerts.
	namespace string
	alert     func(kube.Key) (*v1.Alert, bool)
}

// statusName compiles a Provider's expression and returns the function that evaluates it to the name of a commit status, nil if the spec has
// none.
func (c *providerController) statusName(p *v1.Provider) (func(context.Context, provider.Notification) (string, error), *fault) {
	if p.Spec.CommitStatusExpr == "" {
		return nil, nil
	}
	program, err := cel.Compile(p.Spec.CommitStatusExpr, cel.String, varEvent, varAlert, varProvider)
	if err != nil {
		return nil, &fault{reason: v1.InvalidCELExpressionReason, message: statusNameField + ": " + err.Error()}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return nil, invalidSpec("%s: the Provider cannot be read by it", statusNameField)
	}
	delete(object, "status")
	n := &statusNamer{program: program, provider: object, namespace: p.Namespace, alert: c.alert}
	return n.name, nil
}

// name evaluates the expression for a notification. Its errors are *event.Error and quote nothing.
func (s *statusNamer) name(ctx context.Context, n provider.Notification) (string, error) {
	vars := map[string]any{varProvider: s.provider}
	var err error
	if vars[varEvent], err = eventObject(n.Event); err != nil {
		return "", unnamed(err)
	}
	if s.program.Reads(varAlert) {
		if vars[varAlert], err = s.alertObject(n.Alert); err != nil {
			return "", unnamed(err)
		}
	}
	name, err := s.program.String(ctx, vars)
	if err != nil {
		return "", unnamed(err)
	}
	return name, nil
}

// unnamed classifies a failed evaluation. Only an interrupted one is retried.
func unnamed(err error) *event.Error {
	class, reason := event.Permanent, statusNameField+" cannot be evaluated"
	if failure, ok := errors.AsType[cel.Failure](err); ok {
		reason = statusNameField + " " + failure.Error()
		if failure == cel.ErrInterrupted {
			class = event.Retry
		}
	}
	return event.NewError(class, provider.LabelPayload, reason, err)
}

// eventObject returns an event in the form of its JSON.
func eventObject(e event.Event) (map[string]any, error) {
	encoded, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	return object, json.Unmarshal(encoded, &object)
}

// alertObject returns the present Alert of that name, without its status. A deleted Alert has only its name and namespace.
func (s *statusNamer) alertObject(name string) (map[string]any, error) {
	found, ok := s.alert(kube.Key{Namespace: s.namespace, Name: name})
	if !ok {
		return map[string]any{"metadata": map[string]any{"name": name, "namespace": s.namespace}}, nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	delete(object, "status")
	return object, err
}
