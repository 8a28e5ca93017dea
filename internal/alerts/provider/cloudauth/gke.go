package cloudauth

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	// metadataHost is the address of Google's metadata server. GCE_METADATA_HOST names another, as for Google's own libraries.
	metadataHost = "169.254.169.254"
	metadataTime = 3 * time.Second
	maxMetadata  = 1 << 10 // bytes of one answer
)

// metadataForm matches the valid answers of the metadata server: they become part of an audience.
var metadataForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]{0,99}$`)

// gkePool returns the audiences of the pool that every cluster of GKE with workload identity has. It requests only the cluster's name
// from the metadata server, which no Provider reaches: never a token, and nothing that a tenant chooses.
func gkePool(ctx context.Context) (audiences, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var values [3]string
	for i, path := range []string{"project/project-id", "instance/attributes/cluster-location", "instance/attributes/cluster-name"} {
		value, err := metadata(ctx, client, path)
		if err != nil || !metadataForm.MatchString(value) {
			return audiences{}, event.NewError(event.Retry, provider.LabelRejected, "the service account has no annotation "+googleProvider+
				", and this cluster is none of GKE with a metadata server that says so", err)
		}
		values[i] = value
	}
	pool := values[0] + ".svc.id.goog"
	return audiences{
		cluster: pool,
		google: "identitynamespace:" + pool + ":https://container.googleapis.com/v1/projects/" + values[0] + "/locations/" + values[1] +
			"/clusters/" + values[2],
	}, nil
}

func metadata(ctx context.Context, client *http.Client, path string) (string, error) {
	host := cmp.Or(os.Getenv("GCE_METADATA_HOST"), metadataHost)
	u := "http://" + host + "/computeMetadata/v1/" + path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody) //nolint:gosec // no tenant chooses the host or the path
	if err != nil {
		return "", err
	}
	r.Header.Set("Metadata-Flavor", "Google")
	resp, err := client.Do(r) //nolint:gosec // no tenant chooses the host or the path
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Metadata-Flavor") != "Google" {
		return "", errAnswer
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata))
	return string(body), err
}
