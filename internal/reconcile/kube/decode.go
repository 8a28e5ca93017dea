package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tolerantSerializer gives clients decoders that accept objects which do not fit their Go type. Without it one such object, which any
// tenant can make, fails every list and watch of its kind, and so the whole process.
type tolerantSerializer struct {
	runtime.NegotiatedSerializer
	scheme *runtime.Scheme
}

// DecoderToVersion wraps the decoder with which a client reads answers.
func (s tolerantSerializer) DecoderToVersion(serializer runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return tolerantDecoder{s.NegotiatedSerializer.DecoderToVersion(serializer, gv), s.scheme}
}

type tolerantDecoder struct {
	runtime.Decoder
	scheme *runtime.Scheme
}

// Decode decodes data. If that fails it decodes once more, without the parts of the object at fault.
func (d tolerantDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	object, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, gvk, nil
	}
	reduced, reduceErr := d.reduce(data)
	if reduceErr != nil {
		return nil, gvk, err
	}
	if into != nil {
		// The first attempt left its decoded fields, which the second would mix with the new ones.
		reflect.ValueOf(into).Elem().SetZero()
	}
	return d.Decoder.Decode(reduced, defaults, into)
}

// decodeReduced decodes an object without the parts at fault. If that fails too it returns cause, the error of the first decoding.
func (d tolerantDecoder) decodeReduced(data []byte, into runtime.Object, cause error) error {
	reduced, err := d.reduce(data)
	if err != nil {
		return cause
	}
	return json.Unmarshal(reduced, into)
}

// reduce removes as few of an object's parts as are needed to decode it: the status, which its writer then replaces; the spec, which
// marks the object as Undecodable; or both. The rest, which may be large, is not decoded.
func (d tolerantDecoder) reduce(data []byte) ([]byte, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("read kind: %w", err)
	}
	gvk := kind.GroupVersionKind()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	spec, status := d.fits(gvk, "spec", fields), d.fits(gvk, "status", fields)
	if !status {
		delete(fields, "status")
	}
	switch {
	case spec && status:
		return nil, errors.New("neither spec nor status is at fault")
	case spec:
		return json.Marshal(fields)
	}
	delete(fields, "spec")
	return mark(gvk, fields)
}

// fits reports whether a gvk's part of that name decodes.
func (d tolerantDecoder) fits(gvk schema.GroupVersionKind, part string, fields map[string]json.RawMessage) bool {
	object, err := d.scheme.New(gvk)
	if err != nil {
		return false
	}
	data, err := json.Marshal(map[string]json.RawMessage{part: fields[part]})
	return err == nil && json.Unmarshal(data, object) == nil
}

// mark encodes fields with the annotation Undecodable. It also sets the kind, which an item of a list may lack.
func mark(gvk schema.GroupVersionKind, fields map[string]json.RawMessage) ([]byte, error) {
	var metadata map[string]json.RawMessage
	var read struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := errors.Join(json.Unmarshal(fields["metadata"], &metadata), json.Unmarshal(fields["metadata"], &read)); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	if metadata == nil {
		return nil, errors.New("no metadata")
	}
	annotations := map[string]string{}
	maps.Copy(annotations, read.Annotations)
	annotations[Undecodable] = "true"
	for name, value := range map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind} {
		fields[name], _ = json.Marshal(value) // texts always encode
	}
	metadata["annotations"], _ = json.Marshal(annotations)
	var err error
	if fields["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	return json.Marshal(fields)
}
