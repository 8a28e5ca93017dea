package watch

import "strings"

// Kind describes one kind of Flux object to the watchers.
type Kind struct {
	Group    string
	Kind     string
	Resource string
	// Controller is the name under which the kind's controller reports events.
	Controller string
	// revision extracts from a status what the object's last reconciliation was about; failed says how it ended.
	revision func(s *status, failed bool) string
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
	{"source.extensions.fluxcd.io", "ArtifactGenerator", "artifactgenerators", "source-watcher", sourcesDigest},
	{"kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", "kustomize-controller", kustomizationRevision},
	{"helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", "helm-controller", helmRevision},
	{imageGroup, "ImageRepository", "imagerepositories", imageReflect, noRevision},
	{imageGroup, "ImagePolicy", "imagepolicies", imageReflect, policyRevision},
	{imageGroup, "ImageUpdateAutomation", "imageupdateautomations", "image-automation-controller", pushedCommit},
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

func artifactRevision(s *status, _ bool) string { return s.Artifact.Revision }

// noRevision is for image repositories: every scan of a registry has a revision of its own, but what matters of it is told by
// the policies that select from the tags.
func noRevision(*status, bool) string { return "" }

func sourcesDigest(s *status, _ bool) string { return s.ObservedSourcesDigest }

func pushedCommit(s *status, _ bool) string { return s.LastPushCommit }

func kustomizationRevision(s *status, failed bool) string {
	if failed {
		return s.LastAttemptedRevision
	}
	return s.LastAppliedRevision
}

// helmRevision prefers the release history after success, and after failure the attempt: a release that failed and was rolled
// back has the old chart at the head of its history.
func helmRevision(s *status, failed bool) string {
	attempted, released := s.LastAttemptedRevision, ""
	if len(s.History) > 0 {
		released = s.History[0].ChartVersion
	}
	if released == "" || (failed && attempted != "") {
		return attempted
	}
	return released
}

// policyRevision is the image that the policy selected; versions before v1 of the API have it as one string.
func policyRevision(s *status, _ bool) string {
	if s.LatestRef.Tag == "" && s.LatestRef.Digest == "" {
		return s.LatestImage
	}
	return strings.TrimSuffix(s.LatestRef.Tag+"@"+s.LatestRef.Digest, "@")
}
