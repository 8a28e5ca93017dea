package kube_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/alloctest"
	"notifier/internal/reconcile/kube"
)

// labels returns n labels, as many as an object of the API server may have.
func labels(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("%x", i)] = ""
	}
	return all
}

// T6: fails when all labels of an object are sorted to keep the smallest: 143 ms for 130,000 of them, where decoding takes 60.
func TestT6TheLabelsThatAreKeptAreFoundWithoutSortingAll(t *testing.T) {
	all := labels(130_000)
	if n := alloctest.Bytes(func() { kube.KeptLabels(all) }); n > 256<<10 {
		t.Errorf("%d KiB are allocated to keep 8 KiB", n>>10)
	}
}

// Fails when an entry is kept and a smaller one is not, or one that fits is not kept.
func TestTheSmallestEntriesAreKept(t *testing.T) {
	for range 1000 {
		all := map[string]string{}
		for range rand.IntN(20) {
			all[strings.Repeat("k", 1+rand.IntN(60))] = strings.Repeat("v", rand.IntN(60))
		}
		n, want := rand.IntN(1500), map[string]string{}
		left := n
		for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a)+len(all[a]), len(b)+len(all[b])), cmp.Compare(a, b))
		}) {
			if left -= 64 + len(key) + len(all[key]); left < 0 {
				break
			}
			want[key] = all[key]
		}
		if got := kube.Within(all, n); !maps.Equal(got, want) {
			t.Fatalf("of %v in %d bytes: got %v, want %v", all, n, got, want)
		}
	}
}

// T6: fails when the metadata of an object is decoded again and again, with 130,000 labels for half a second, to find that its spec does not
// decode. The API server takes an interval beyond what a duration can be.
func TestT6AnObjectThatDoesNotDecodeCostsLittleMoreThanAnother(t *testing.T) {
	many, err := json.Marshal(labels(100_000))
	if err != nil {
		t.Fatal(err)
	}
	cost := func(interval string) uint64 {
		resource := realResource(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"9"},"items":[{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Receiver",
				"metadata":{"name":"a","namespace":"n","labels":`+string(many)+`},"spec":{"interval":"`+interval+`"}}]}`)
		})
		return alloctest.Bytes(func() {
			listed, err := resource.In("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(listed.(*metav1.List).Items) != 1 {
				t.Fatalf("got %v, %v", listed, err)
			}
		})
	}
	good, bad := cost("5m"), cost("99999999999h")
	if bad > 3*good {
		t.Errorf("%d MiB are allocated for it, and %d for one that decodes", bad>>20, good>>20)
	}
}
