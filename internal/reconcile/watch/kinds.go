package watch

import (
	"cmp"
	"strings"
)

// Kind describes one kind of Flux object to the watchers.
type Kind struct {
	Group    string
	Kind     string
	Resource string
	// Controller is the name under which the kind's controller reports events.
	Controller string
	// revision extracts from a status the revision of the object's last reconciliation if that succeeded, failed if it failed. nil means that
	// there is none.
	revision, failed func(s *status) string
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

// definitions is the kind of the kinds' own definitions. Only their metadata is read.
var definitions = &Kind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"}

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
		revision: appliedRevision, failed: attemptedRevision, awaits: []string{artifactFailed, sourceNotReady}, awaitsIdle: true, postsLast: true,
	},
	{
		Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease", Resource: "helmreleases", Controller: "helm-controller",
		revision: releasedRevision, failed: triedRevision, awaits: []string{artifactFailed, sourceNotReady}, failing: "Could not load chart: ",
	},
	// Every scan of a registry has a revision of its own, but its relevant result is published by the policies that select from the tags.
	{Group: imageGroup, Kind: "ImageRepository", Resource: "imagerepositories", Controller: imageReflect},
	{Group: imageGroup, Kind: "ImagePolicy", Resource: "imagepolicies", Controller: imageReflect, revision: policyRevision},
	// Its status does not name the pushed revision, and the source that it pushes to publishes it.
	{Group: imageGroup, Kind: "ImageUpdateAutomation", Resource: "imageupdateautomations", Controller: "image-automation-controller"},
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

// revisionOf returns the revision of the last reconciliation.
func (k *Kind) revisionOf(s *status, failed bool) string {
	read := k.revision
	if failed {
		read = k.failed
	}
	if read == nil {
		return ""
	}
	return read(s)
}

// artifactRevision is that of a source that has not failed: the artifact that a failed one still has is from an earlier success.
func artifactRevision(s *status) string { return s.Artifact.Revision }

func sourcesDigest(s *status) string     { return s.ObservedSourcesDigest }
func appliedRevision(s *status) string   { return s.LastAppliedRevision }
func attemptedRevision(s *status) string { return s.LastAttemptedRevision }

// releasedRevision prefers the release history, and triedRevision, for a failure, the attempt: a release that failed and was rolled back has
// the old chart at the head of its history.
func releasedRevision(s *status) string { return cmp.Or(released(s), s.LastAttemptedRevision) }
func triedRevision(s *status) string    { return cmp.Or(s.LastAttemptedRevision, released(s)) }

func released(s *status) string {
	if len(s.History) == 0 {
		return ""
	}
	return s.History[0].ChartVersion
}

// policyRevision returns the image that the policy selected. API versions before v1 have it as one string.
func policyRevision(s *status) string {
	if s.LatestRef.Tag == "" && s.LatestRef.Digest == "" {
		return s.LatestImage
	}
	return strings.TrimSuffix(s.LatestRef.Tag+"@"+s.LatestRef.Digest, "@")
}
