package command

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/yaml"
)

// pod returns a Pod with notifier's label, that runs as an account.
func pod(name, port, account string, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 9090}, {Name: port, ContainerPort: 9595},
		}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// cluster is an API server whose Pods with notifier's label are pods, by namespace. Others the caller may not list.
type cluster struct {
	pods map[string][]corev1.Pod
	// installed is the account with notifier's rights. mayReview says that the caller may ask for the rights of accounts.
	installed string
	mayReview bool
	// forwarded is the path of the Pod to which a port was forwarded.
	forwarded string
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	namespace, resource, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	pods, known := c.pods[namespace]
	switch {
	case strings.HasSuffix(r.URL.Path, "/portforward"):
		c.forwarded = namespace + "/" + resource
	case known && r.URL.Query().Get("labelSelector") == installed:
		for i := range pods {
			pods[i].Namespace = namespace
		}
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: pods})
		return
	case r.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews" && c.mayReview:
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == c.installed && asked.Namespace == "" && asked.Resource == "receivers" && asked.Subresource == "status"
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
}

// E7. Fails when the port-forward leads to a Pod that anybody could have put into a namespace which is notifier's elsewhere, or to another than
// a ready one with the API, or when a caller without a right is not told which.
func TestThePortForwardLeadsToNotifiersPodAlone(t *testing.T) {
	ready, serves := corev1.ConditionTrue, pod("serves", portName, "notifier", corev1.ConditionTrue)
	starts, ends := pod("starts", portName, "notifier", corev1.ConditionFalse), pod("ends", portName, "notifier", ready)
	ends.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	const account = "system:serviceaccount:flux-system:notifier"
	for name, tc := range map[string]struct {
		cluster cluster
		named   string
		want    string // the Pod, or a part of the error
	}{
		"the only Pod is a stranger's": {
			cluster: cluster{pods: map[string][]corev1.Pod{"notification-system": {serves}, "flux-system": nil}, installed: account, mayReview: true},
			want:    "--install-namespace",
		},
		"a stranger may make Pods beside notifier": {
			cluster: cluster{
				pods:      map[string][]corev1.Pod{"notification-system": nil, "flux-system": {pod("a", portName, "default", ready), starts, serves}},
				installed: account, mayReview: true,
			},
			want: "flux-system/pods/serves/portforward",
		},
		"both have one": {
			cluster: cluster{pods: map[string][]corev1.Pod{"notification-system": {serves}, "flux-system": {serves}}, installed: account, mayReview: true},
			want:    "flux-system/pods/serves/portforward",
		},
		"the caller may not look in one": {
			cluster: cluster{pods: map[string][]corev1.Pod{"flux-system": {starts, serves}}, installed: account, mayReview: true},
			want:    "flux-system/pods/serves/portforward",
		},
		"the caller may not ask for the account's rights": {
			cluster: cluster{pods: map[string][]corev1.Pod{"notification-system": nil, "flux-system": {serves}}, installed: account},
			want:    "your token is not sent to Pod flux-system/serves",
		},
		"the caller names the namespace": {
			cluster: cluster{pods: map[string][]corev1.Pod{"team-a": {pod("no-api", "other", "x", ready), starts, serves}}},
			named:   "team-a", want: "team-a/pods/serves/portforward",
		},
		"a Pod ends and is ready until its listeners close": {
			cluster: cluster{pods: map[string][]corev1.Pod{"team-a": {ends, serves}}},
			named:   "team-a", want: "team-a/pods/serves/portforward",
		},
		"no Pod is ready": {
			cluster: cluster{pods: map[string][]corev1.Pod{"notification-system": {pod("no-api", "other", "x", ready)}, "flux-system": {starts}}},
			want:    "no ready Pod",
		},
		"the caller may look nowhere": {want: "you may not list Pods in namespace notification-system, flux-system"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&tc.cluster)
			defer server.Close()
			_, _, err := forward(t.Context(), &rest.Config{Host: server.URL}, tc.named, func(error) {})
			if err == nil || !strings.Contains(tc.cluster.forwarded+" "+err.Error(), tc.want) || tc.cluster.forwarded != "" && tc.cluster.forwarded != tc.want {
				t.Errorf("forwarded to %q, error %v", tc.cluster.forwarded, err)
			}
		})
	}
}

// breaking is an output that calls end at the first write.
type breaking struct {
	once sync.Once
	end  func()
}

func (b *breaking) Write(p []byte) (int, error) {
	b.once.Do(b.end)
	return len(p), nil
}

// E7. Fails when a command goes on once its port-forward has ended: it waits for a page that is gone, or sends the token to whoever listens at
// the port of this machine next.
func TestACommandEndsWithItsPortForward(t *testing.T) {
	c := cluster{pods: map[string][]corev1.Pod{"flux-system": {pod("serves", portName, "notifier", corev1.ConditionTrue)}}}
	upgraded := make(chan httpstream.Connection, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "pods":
			c.ServeHTTP(w, r)
			return
		case "token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"`+token+`"}}`)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Error(err)
		}
		upgraded <- spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(httpstream.Stream, <-chan struct{}) error { return nil })
	}))
	defer server.Close()
	t.Setenv(serverVariable, "")
	root := &cobra.Command{Use: "notifier", SilenceUsage: true, SilenceErrors: true}
	Add(root)
	root.SetArgs([]string{"ui", "--install-namespace=flux-system", "--kubeconfig=" + kubeconfig(t, server.URL, "{}")})
	root.SetOut(&breaking{end: func() { _ = (<-upgraded).Close() }})
	root.SetErr(io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := root.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "port-forward to Pod flux-system/serves") {
		t.Errorf("error %v", err)
	}
}

// Fails when the role of the installation lacks the right by which its Pods are recognized.
func TestTheRoleHasTheRightOfNotifiersPods(t *testing.T) {
	manifest, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(manifest), "\n---\n")
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal([]byte(document), &role); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, notifiersRight.Group) && slices.Contains(r.Verbs, notifiersRight.Verb) &&
			slices.Contains(r.Resources, notifiersRight.Resource+"/"+notifiersRight.Subresource)
	}) {
		t.Errorf("no rule of %s has %+v", role.Name, notifiersRight)
	}
}
