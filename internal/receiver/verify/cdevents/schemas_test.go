package cdevents

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cdevents/sdk-go/pkg/api"
)

// node is a JSON value: a text, an object or a list. Members keep their order, and two may have one name.
type node struct {
	text    string
	members []named
	list    []node
}

type named struct {
	name  string
	value node
}

func raw(text string) node { return node{text: text} }

func (n node) String() string {
	if n.text != "" {
		return n.text
	}
	var parts []string
	if n.list != nil {
		for _, v := range n.list {
			parts = append(parts, v.String())
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	for _, m := range n.members {
		name, _ := json.Marshal(m.name)
		parts = append(parts, string(name)+":"+m.value.String())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// edit returns a copy in which change has replaced the member or element at path.
func (n node) edit(path []int, change func(named) []named) node {
	if n.list != nil {
		n.list = slices.Clone(n.list)
		if len(path) > 1 {
			n.list[path[0]] = n.list[path[0]].edit(path[1:], change)
			return n
		}
		var made []node
		for _, m := range change(named{value: n.list[path[0]]}) {
			made = append(made, m.value)
		}
		n.list = slices.Replace(n.list, path[0], path[0]+1, made...)
		return n
	}
	n.members = slices.Clone(n.members)
	if len(path) > 1 {
		n.members[path[0]].value = n.members[path[0]].value.edit(path[1:], change)
		return n
	}
	n.members = slices.Replace(n.members, path[0], path[0]+1, change(n.members[path[0]])...)
	return n
}

// paths calls visit for each member and element at any depth, with their names.
func (n node) paths(visit func(path []int, name string)) { n.walk(nil, "", visit) }

func (n node) walk(path []int, name string, visit func([]int, string)) {
	if len(path) > 0 {
		visit(slices.Clone(path), name)
	}
	for i, v := range n.list {
		v.walk(append(path, i), name+"[]", visit)
	}
	for i, m := range n.members {
		m.value.walk(append(path, i), name+"."+m.name, visit)
	}
}

// schema is the schema of one type of event, as the SDK has it.
type schema struct {
	Type       string
	Format     string
	Pattern    string
	Enum       []string
	Required   []string
	Properties map[string]*schema
	Items      *schema
	AnyOf      []*schema
	OneOf      []*schema
	Ref        string `json:"$ref"`

	name string
}

// schemasOf returns the schemas of all types of events of a specification.
func schemasOf(t testing.TB, spec int) []*schema {
	t.Helper()
	var all []*schema
	for _, key := range slices.Sorted(maps.Keys(catalogues[spec])) {
		id, _, err := catalogues[spec][key].GetSchema()
		if err != nil {
			t.Fatal(err)
		}
		s := &schema{name: strings.TrimPrefix(id, "https://cdevents.dev/")}
		if err := json.NewDecoder(bytes.NewReader([]byte(api.SchemasById[id]))).Decode(s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// smallest returns an event with only the members that the schema requires, and the ID of an artifact, which the SDK
// requires. fullest returns one with all members except the URI of the sender's own schema, which the SDK does not have.
func (s *schema) smallest() node {
	return s.sample("", func(name string) bool { return name == "artifactId" })
}

func (s *schema) fullest() node {
	return s.sample("", func(name string) bool { return name != "schemaUri" })
}

func (s *schema) sample(name string, with func(name string) bool) node {
	switch {
	case s.Ref != "":
		return raw(linkLists["one of each type"])
	case s.AnyOf != nil:
		return s.AnyOf[0].sample(name, with)
	case s.OneOf != nil:
		return s.OneOf[0].sample(name, with)
	case s.Type == "array":
		return node{list: []node{s.Items.sample(name, with), raw(`"y"`)}}
	case s.Type == "object" && s.Properties == nil:
		return raw(`{"k":[1,{"l":null}]}`)
	case s.Type == "object":
		var n node
		for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, member) || with(member) {
				n.members = append(n.members, named{member, s.Properties[member].sample(member, with)})
			}
		}
		return n
	default:
		text, _ := json.Marshal(s.word(name))
		return raw(string(text))
	}
}

// word returns a text that the schema accepts.
func (s *schema) word(name string) string {
	switch {
	case s.Enum != nil:
		return s.Enum[0]
	case strings.HasPrefix(s.Pattern, `^dev\.cdeventsx`):
		return "dev.cdeventsx.acme-quota.exceeded.0.1.0"
	case s.Pattern != "":
		return "acme-quota"
	case name == "artifactId":
		return "pkg:oci/app@sha256%3A0?tag=latest#/a"
	case s.Format == "date-time":
		return "2026-03-20T14:27:05.315384+01:00"
	case s.Format != "":
		return "https://example.org/" + name
	default:
		return name + " of it"
	}
}

// words returns the values of all enumerations below a schema.
func (s *schema) words() []string {
	words := slices.Clone(s.Enum)
	for _, below := range slices.Concat(slices.Collect(maps.Values(s.Properties)), s.AnyOf, s.OneOf) {
		words = append(words, below.words()...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}
