package limits

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// T6: a tenant writes a time into the managed fields of its Secret that is of the year 10000 in UTC. The API server takes it, and sends it in
// a form that no client reads. Fails when a restart then waits for that Secret, and nothing that anybody's webhooks ask for is written.
func TestT6ASecretThatNobodyCanReadHoldsUpNoStart(t *testing.T) {
	s := alone(t)
	attacker := s.NewTenant()
	s.Receiver(attacker, "app", "token", "")
	path := s.Receiver(s.Tenant, "app", "token", "")
	_, err := attacker.Client.CoreV1().Secrets(attacker.Namespace).Patch(s.Ctx, "app-token", types.MergePatchType, []byte(
		`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	s.Must(err)
	_, err = attacker.Client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(attacker.Namespace).Resource("secrets").Name("app-token").
		Body([]byte(`{"metadata":{"managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","time":"9999-12-31T23:59:59-01:00",
			"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}}}]}}`)).DoRaw(s.Ctx)
	s.Must(err)
	s.Must(s.Kill())
	s.Must(s.Restart(s.Ctx))
	sent := time.Now()
	s.Push(path, "token", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
}
