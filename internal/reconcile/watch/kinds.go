package watch

import "strings"

// Kind describes one kind of Flux object to the watchers.
type Kind struct {
	Group    string
	Kind     string
	Resource string
	// Controller is the name under which the kind's controller reports events.
	Controller string
	// revision extracts from a status the revision of the object's last reconciliation. failed reports that it failed.
	revision func(s *status, failed bool) string
	// awaits are the reasons under which an object waits for its source, which its controller does not POST. Under such a reason it has
	// failed if it is Reconciling and awaitsIdle is set, or if its message begins with failing. A POST leaves failing out.
	awaits     []string
	awaitsIdle bool
	failing    string
	// postsLast reports that the controller POSTs a success after writing it. Other kinds' successes, and all failures, are POSTed before.
	postsLast bool
}

// crd returns the name of the definition of the kind.
func (k *Kind) crd() string { return k.Resource + "." + k.Group }

const (
	sourceGroup  = "source.toolkit.fluxcd.io"
	imageGroup   = "image.toolkit.fluxcd.io"
	sources      = "source-controller"
	imageReflect = "image-reflector-controller"
	sourceWatch  = "source-watcher"

	artifactFailed = "ArtifactFailed"
	sourceNotReady = "SourceNotReady"
)

// kinds is the table of watched kinds. Kind names are unique in it: events name objects by kind, without a group.
var kinds = []*Kind{
	{Group: sourceGroup, Kind: "GitRepository", Resource: "gitrepositories", Controller: sources, revision: artifactRevision},
	{Group: sourceGroup, Kind: "OCIRepository", Resource: "ocirepositories", Controller: sources, revision: artifactRevision},
	{Group: sourceGroup, Kind: "Bucket", Resource: "buckets", Controller: sources, revision: artifactRevision},
	{Group: sourceGroup, Kind: "HelmRepository", Resource: "helmrepositories", Controller: sources, revision: artifactRevision},
	{
		Group: sourceGroup, Kind: "HelmChart", Resource: "helmcharts", Controller: sources, revision: artifactRevision,
		awaits: []string{"NoSourceArtifact"},
	},
	{Group: sourceGroup, Kind: "ExternalArtifact", Resource: "externalartifacts", Controller: sourceWatch, revision: artifactRevision},
	{Group: "source.extensions.fluxcd.io", Kind: "ArtifactGenerator", Resource: "artifactgenerators", Controller: sourceWatch, revision: sourcesDigest},
	{
		Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization", Resource: "kustomizations", Controller: "kustomize-controller",
		revision: kustomizationRevision, awaits: []string{artifactFailed, sourceNotReady}, awaitsIdle: true, postsLast: true,
	},
	{
		Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease", Resource: "helmreleases", Controller: "helm-controller",
		revision: helmRevision, awaits: []string{artifactFailed, sourceNotReady}, failing: "Could not load chart: ",
	},
	{Group: imageGroup, Kind: "ImageRepository", Resource: "imagerepositories", Controller: imageReflect, revision: noRevision},
	{Group: imageGroup, Kind: "ImagePolicy", Resource: "imagepolicies", Controller: imageReflect, revision: policyRevision},
	{
		Group: imageGroup, Kind: "ImageUpdateAutomation", Resource: "imageupdateautomations", Controller: "image-automation-controller",
		revision: noRevision,
	},
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

// artifactRevision is empty for a failed source: the artifact it still has is from an earlier success.
func artifactRevision(s *status, failed bool) string {
	if failed {
		return ""
	}
	return s.Artifact.Revision
}

// noRevision is for image repositories and automations. Every scan of a registry has a revision of its own, but its relevant result is
// published by the policies that select from the tags. An automation's status does not name the pushed revision, and the source that it
// pushes to publishes it.
func noRevision(*status, bool) string { return "" }

func sourcesDigest(s *status, failed bool) string {
	if failed {
		return ""
	}
	return s.ObservedSourcesDigest
}

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

// policyRevision returns the image that the policy selected. API versions before v1 have it as one string.
func policyRevision(s *status, failed bool) string {
	if failed {
		return ""
	}
	if s.LatestRef.Tag == "" && s.LatestRef.Digest == "" {
		return s.LatestImage
	}
	return strings.TrimSuffix(s.LatestRef.Tag+"@"+s.LatestRef.Digest, "@")
}
