package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Older reports whether one resource version is known to precede another. It is false for versions that do not compare, such as an
// empty one.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ParseAPIVersion reads the group and version of a kind, and reports whether they are plain names: a tenant writes them, and they
// become part of a path.
func ParseAPIVersion(apiVersion string) (schema.GroupVersion, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(validation.IsDNS1035Label(gv.Version)) > 0 ||
		gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 {
		return schema.GroupVersion{}, false
	}
	return gv, true
}

// Await waits until done closes, but at most for atMost. It reports whether it returned before ctx ended.
func Await(ctx context.Context, done <-chan struct{}, atMost time.Duration) bool {
	select {
	case <-done:
	case <-time.After(atMost):
	case <-ctx.Done():
		return false
	}
	return true
}
