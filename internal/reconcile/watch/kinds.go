package watch

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kind describes one kind of Flux object to the watchers.
type Kind struct {
	Group    string
	Kind     string
	Resource string
	// Controller is the name under which the kind's controller reports events.
	Controller string
	// revision extracts from a status what the object's last reconciliation was about; failed says how it ended.
	revision func(status map[string]any, failed bool) string
}

// crd is the name of the definition of the kind.
func (k *Kind) crd() string { return k.Resource + "." + k.Group }

const (
	sourceGroup  = "source.toolkit.fluxcd.io"
	imageGroup   = "image.toolkit.fluxcd.io"
	sources      = "source-controller"
	imageReflect = "image-reflector-controller"
)

// kinds is the table of what is watched. Kind names are unique in it: events name objects by kind, without a group.
var kinds = []*Kind{
	{sourceGroup, "GitRepository", "gitrepositories", sources, artifactRevision},
	{sourceGroup, "OCIRepository", "ocirepositories", sources, artifactRevision},
	{sourceGroup, "Bucket", "buckets", sources, artifactRevision},
	{sourceGroup, "HelmRepository", "helmrepositories", sources, artifactRevision},
	{sourceGroup, "HelmChart", "helmcharts", sources, artifactRevision},
	{sourceGroup, "ExternalArtifact", "externalartifacts", "source-watcher", artifactRevision},
	{"source.extensions.fluxcd.io", "ArtifactGenerator", "artifactgenerators", "source-watcher", field("observedSourcesDigest")},
	{"kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", "kustomize-controller", kustomizationRevision},
	{"helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", "helm-controller", helmRevision},
	{imageGroup, "ImageRepository", "imagerepositories", imageReflect, noRevision},
	{imageGroup, "ImagePolicy", "imagepolicies", imageReflect, policyRevision},
	{imageGroup, "ImageUpdateAutomation", "imageupdateautomations", "image-automation-controller", field("lastPushCommit")},
}

// kindNamed returns the kind of that name, nil if it is not watched.
func kindNamed(name string) *Kind {
	for _, k := range kinds {
		if k.Kind == name {
			return k
		}
	}
	return nil
}

// Kinds returns the kinds that are watched where the cluster serves them.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
	for i, k := range kinds {
		all[i] = *k
	}
	return all
}

// text returns the string at path, empty when there is none: a malformed status must not stop its kind.
func text(status map[string]any, path ...string) string {
	s, _, err := unstructured.NestedString(status, path...)
	if err != nil {
		return ""
	}
	return s
}

// entries returns the list of that name without a copy, empty when there is none.
func entries(status map[string]any, name string) []any {
	l, _ := status[name].([]any)
	return l
}

func field(name string) func(map[string]any, bool) string {
	return func(status map[string]any, _ bool) string { return text(status, name) }
}

func artifactRevision(status map[string]any, _ bool) string {
	return text(status, "artifact", "revision")
}

// noRevision is for image repositories: every scan of a registry has a revision of its own, but what matters of it is told by
// the policies that select from the tags.
func noRevision(map[string]any, bool) string { return "" }

func kustomizationRevision(status map[string]any, failed bool) string {
	if failed {
		return text(status, "lastAttemptedRevision")
	}
	return text(status, "lastAppliedRevision")
}

// helmRevision prefers the release history after success, and after failure the attempt: a release that failed and was rolled
// back has the old chart at the head of its history.
func helmRevision(status map[string]any, failed bool) string {
	attempted, released := text(status, "lastAttemptedRevision"), ""
	if history := entries(status, "history"); len(history) > 0 {
		if latest, ok := history[0].(map[string]any); ok {
			released = text(latest, "chartVersion")
		}
	}
	if released == "" || (failed && attempted != "") {
		return attempted
	}
	return released
}

// policyRevision is the image that the policy selected; versions before v1 of the API have it as one string.
func policyRevision(status map[string]any, _ bool) string {
	tag, digest := text(status, "latestRef", "tag"), text(status, "latestRef", "digest")
	if tag == "" && digest == "" {
		return text(status, "latestImage")
	}
	return strings.TrimSuffix(tag+"@"+digest, "@")
}
