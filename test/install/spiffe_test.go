package install

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Fails when the API server refuses the component for SPIFFE IDs, when the process is not told of the runtime's socket or cannot reach it, or
// when the port to which Flux's controllers POST by HTTPS leads to another endpoint.
func TestTheComponentForSPIFFEIDsHasTheSocketAndThePorts(t *testing.T) {
	s := setUp(t)
	s.namespace("flux-system")
	root, all := pages(t)
	_, block, _ := strings.Cut(all["docs/operations.md"], "\n## Clients by their SPIFFE IDs\n")
	built := build(t, root, fence.FindStringSubmatch(block)[1])
	ports := map[string]string{}
	var pod corev1.PodSpec
	for _, doc := range documents(built) {
		if _, err := s.System.DryRun(s.Ctx, doc); err != nil {
			t.Error(err)
		}
		var service corev1.Service
		var deployment appsv1.Deployment
		switch {
		case strings.Contains(doc, "\nkind: Service\n"):
			s.Must(yaml.Unmarshal([]byte(doc), &service))
			for _, p := range service.Spec.Ports {
				if p.Port == 443 {
					ports[service.Name] = p.TargetPort.String()
				}
			}
		case strings.Contains(doc, "\nkind: Deployment\n"):
			s.Must(yaml.Unmarshal([]byte(doc), &deployment))
			pod = deployment.Spec.Template.Spec
		}
	}
	if len(ports) != 2 || ports["notification-controller"] != "http" || ports["webhook-receiver"] != "http-webhook" {
		t.Errorf("port 443 leads to %v", ports)
	}
	hasSocket(t, pod)
}

// Several replicas have another Deployment. Fails when its patch takes the socket away, so that all events are refused.
func TestSeveralReplicasHaveTheSocket(t *testing.T) {
	root, all := pages(t)
	_, block, _ := strings.Cut(all["docs/operations.md"], "\n### From one replica to several\n")
	kustomization := fence.FindStringSubmatch(block)[1] + "components:\n- <the same>/config/spiffe\n"
	for _, doc := range documents(build(t, root, kustomization)) {
		if strings.Contains(doc, "\nkind: Deployment\n") {
			var deployment appsv1.Deployment
			if err := yaml.Unmarshal([]byte(doc), &deployment); err != nil {
				t.Fatal(err)
			}
			hasSocket(t, deployment.Spec.Template.Spec)
		}
	}
}

// hasSocket checks that a Pod has the runtime's socket, and that the process is told of it.
func hasSocket(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	container, volume := pod.Containers[0], ""
	for _, v := range pod.Volumes {
		if v.CSI != nil && v.CSI.Driver == "csi.spiffe.io" {
			volume = v.Name
		}
	}
	for _, e := range container.Env {
		if e.Name != "SPIFFE_ENDPOINT_SOCKET" {
			continue
		}
		for _, m := range container.VolumeMounts {
			if m.Name == volume && strings.HasPrefix(e.Value, "unix://"+m.MountPath+"/") {
				return
			}
		}
		t.Errorf("%s is on no mounted volume", e.Value)
		return
	}
	t.Error("the process is not told of the socket")
}
