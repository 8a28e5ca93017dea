package kube

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tolerantSerializer gives clients decoders that survive objects which their Go type cannot hold. Without it one such object,
// which any tenant can make, fails every list and watch of its kind, and with them the whole process.
type tolerantSerializer struct {
	runtime.NegotiatedSerializer
	scheme *runtime.Scheme
}

// DecoderToVersion wraps the decoder that a client reads answers with.
func (s tolerantSerializer) DecoderToVersion(serializer runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return tolerantDecoder{s.NegotiatedSerializer.DecoderToVersion(serializer, gv), s.scheme}
}

type tolerantDecoder struct {
	runtime.Decoder
	scheme *runtime.Scheme
}

// Decode decodes data, and if that fails once more with the objects at fault reduced to their metadata.
func (d tolerantDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, gvk, nil
	}
	reduced, reduceErr := d.reduce(data)
	if reduceErr != nil {
		return nil, gvk, err
	}
	if into != nil {
		// The first attempt left what it could read, which the second would mix with the next object's.
		reflect.ValueOf(into).Elem().SetZero()
	}
	return d.Decoder.Decode(reduced, defaults, into)
}

// envelope is as much of an object or a list as every kind has.
type envelope struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        json.RawMessage   `json:"metadata,omitempty"`
	Items           []json.RawMessage `json:"items,omitempty"`
}

// reduce returns data without the parts that do not decode.
func (d tolerantDecoder) reduce(data []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("read envelope: %w", err)
	}
	gvk := e.GroupVersionKind()
	item, isList := strings.CutSuffix(gvk.Kind, "List")
	if !isList {
		return d.reduceOne(gvk, data)
	}
	for i, raw := range e.Items {
		reduced, err := d.reduceOne(gvk.GroupVersion().WithKind(item), raw)
		if err != nil {
			return nil, err
		}
		e.Items[i] = reduced
	}
	return json.Marshal(e)
}

// reduceOne returns data as it is when it decodes as a gvk, else its metadata with the mark Undecodable.
func (d tolerantDecoder) reduceOne(gvk schema.GroupVersionKind, data []byte) ([]byte, error) {
	object, err := d.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, object) == nil {
		return data, nil
	}
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &partial); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	partial.SetGroupVersionKind(gvk)
	if partial.Annotations == nil {
		partial.Annotations = map[string]string{}
	}
	partial.Annotations[Undecodable] = "true"
	return json.Marshal(partial)
}
