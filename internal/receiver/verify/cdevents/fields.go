package cdevents

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/package-url/packageurl-go"
)

// fields are the members of an object that count. It may have others.
type fields []field

type field struct {
	name string
	form form
}

// form is the demand on a member's value. A member that is not required may be missing, null, or, for a text, empty.
type form struct {
	kind     reflect.Kind // String, Slice of texts, or Struct
	required bool
	values   []string          // of a text: the permitted values, nil for all
	check    func(string) bool // of a text: reports whether the text has its format, nil for no format
	members  fields            // of an object
}

var (
	text         = form{kind: reflect.String}
	texts        = form{kind: reflect.Slice}
	uriReference = form{kind: reflect.String, check: isURIReference}
	purl         = form{kind: reflect.String, check: isPackageURL, required: true}
)

func oneOf(values ...string) form    { return form{kind: reflect.String, values: values} }
func object(members fields) form     { return form{kind: reflect.Struct, members: members} }
func required(f form) form           { f.required = true; return f }
func (f fields) and(g fields) fields { return slices.Concat(f, g) }

// goType returns the struct that encoding/json decodes an object of these fields into. Its members are in the order of
// the fields.
func (f fields) goType() reflect.Type {
	members := make([]reflect.StructField, len(f))
	for i, m := range f {
		members[i] = reflect.StructField{
			Name: fmt.Sprint("F", i), Type: m.form.goType(), Tag: reflect.StructTag(fmt.Sprintf("json:%q", m.name)),
		}
	}
	return reflect.StructOf(members)
}

func (f form) goType() reflect.Type {
	switch f.kind {
	case reflect.Struct:
		return reflect.PointerTo(f.members.goType())
	case reflect.Slice:
		return reflect.TypeFor[[]string]()
	default:
		return reflect.TypeFor[string]()
	}
}

// accepts reports whether the fields of a decoded object meet their forms.
func (f fields) accepts(object reflect.Value) bool {
	for i, m := range f {
		if !m.form.accepts(object.Field(i)) {
			return false
		}
	}
	return true
}

func (f form) accepts(v reflect.Value) bool {
	switch {
	case v.IsZero():
		return !f.required
	case f.kind == reflect.Struct:
		return f.members.accepts(v.Elem())
	case f.kind == reflect.String:
		return (f.values == nil || slices.Contains(f.values, v.String())) && (f.check == nil || f.check(v.String()))
	default:
		return true
	}
}

func isURIReference(s string) bool {
	_, err := url.Parse(s)
	return err == nil
}

// isPackageURL reports whether s is a package URL, such as pkg:oci/app. It refuses a qualifier without value, at which
// the library panics.
func isPackageURL(s string) bool {
	rest, _, _ := strings.Cut(s, "#")
	if i := strings.LastIndex(rest, "?"); i >= 0 {
		for qualifier := range strings.SplitSeq(rest[i+1:], "&") {
			if !strings.Contains(qualifier, "=") {
				return false
			}
		}
	}
	_, err := packageurl.FromString(s)
	return err == nil
}
