package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// columns returns the output of `kubectl get` for an object, by the column's name: the API server makes the table, as
// for kubectl.
func (s *fixture) columns(ctx context.Context, kind, name string) (map[string]string, error) {
	gvr := env.Kinds[kind]
	raw, err := s.Tenant.Client.CoreV1().RESTClient().Get().
		AbsPath("/apis", gvr.Group, gvr.Version, "namespaces", s.Tenant.Namespace, gvr.Resource, name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		return nil, err
	}
	if table.Kind != "Table" || len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
		return nil, fmt.Errorf("not a table of one row: %s", raw)
	}
	shown := map[string]string{}
	for i, c := range table.ColumnDefinitions {
		if cell := table.Rows[0].Cells[i]; cell != nil {
			shown[c.Name] = fmt.Sprint(cell)
		}
	}
	return shown, nil
}

// description is the further content of `kubectl describe`: the conditions of an object, and the Warning Events on it.
type description struct {
	conditions []metav1.Condition
	warnings   []corev1.Event
}

func (s *fixture) describe(ctx context.Context, kind, name string) (d description, err error) {
	obj, err := s.Tenant.Get(ctx, kind, name)
	if err != nil {
		return d, err
	}
	if d.conditions, err = env.Conditions(obj); err != nil {
		return d, err
	}
	events, err := s.Tenant.Client.CoreV1().Events(s.Tenant.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name,
	})
	if err != nil {
		return d, err
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning {
			d.warnings = append(d.warnings, e)
		}
	}
	return d, nil
}

// warned returns nil if a Warning has the reason and a message with the text.
func (d description) warned(reason, text string) error {
	var told []string
	for _, e := range d.warnings {
		if e.Reason == reason && strings.Contains(e.Message, text) {
			return nil
		}
		told = append(told, e.Reason+": "+e.Message)
	}
	return fmt.Errorf("no Warning %s with %q among %q", reason, text, told)
}

// says returns nil if a condition is as wanted, with any reason if none is given, and its message has the text.
func (d description) says(condition string, status metav1.ConditionStatus, reason, text string) error {
	for _, c := range d.conditions {
		if c.Type != condition {
			continue
		}
		if c.Status != status || reason != "" && c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("%s is %s, %s: %s; want %s, %s: %s", condition, c.Status, c.Reason, c.Message, status, reason, text)
		}
		return nil
	}
	return fmt.Errorf("no condition %s: %v", condition, d.conditions)
}
