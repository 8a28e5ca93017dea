package secrets

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// E7: fails when a value of a Secret that may not be used is kept, or a key of a Secret of type kubernetes.io/tls that is for other uses, or
// when the keys of such a Secret are handed out for another use than TLS.
func TestE7NoValueThatMayNotBeUsedIsKept(t *testing.T) {
	for kind, want := range map[corev1.SecretType]int{
		corev1.SecretTypeServiceAccountToken: 0, corev1.SecretTypeDockerConfigJson: 0, corev1.SecretTypeBasicAuth: 0,
		corev1.SecretTypeSSHAuth: 0, corev1.SecretTypeBootstrapToken: 0, "helm.sh/release.v1": 0, "cluster.x-k8s.io/secret": 0,
		"kubernetes.io/": 0, corev1.SecretTypeTLS: 1,
		corev1.SecretTypeOpaque: 2, "": 2, "example.com/webhook": 2, "notkubernetes.io/x": 2, "kubernetes.io": 2,
	} {
		object := &corev1.Secret{Type: kind, Data: map[string][]byte{"token": []byte("hush"), "ca.crt": []byte("ca")}}
		kept := contentOf(object, []string{"token", "ca.crt"}, false)
		if _, token := kept.data.get("token"); len(kept.data) != want || token != (want == 2) {
			t.Errorf("type %q: %d values are kept, want %d; the token: %t", kind, len(kept.data), want, token)
		}
		usable := want == 2
		if s := kept.pick(Want{Keys: []string{"token", "ca.crt"}}); (s.Denied == "") != usable || (len(s.Data) > 0) != usable {
			t.Errorf("type %q: %d values are handed out, and the Secret is denied: %q", kind, len(s.Data), s.Denied)
		}
	}
	unlabelled := &corev1.Secret{Data: map[string][]byte{"token": []byte("hush")}}
	if kept := contentOf(unlabelled, []string{"token"}, true); len(kept.data) != 0 {
		t.Error("a value of a Secret without the label is kept")
	}
}
