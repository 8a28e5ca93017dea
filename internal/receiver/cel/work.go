package cel

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// The unit of work is a step of the interpreter, some 50 ns.
const (
	// maxWork bounds the work of one evaluation: a few milliseconds.
	maxWork = 100_000
	// bytesPerUnit is the number of bytes of a text that are read, or copied, for a unit.
	bytesPerUnit = 10
	// madeBytesPerUnit is the number of bytes of new memory for a unit, other than copies. With maxWork it bounds the memory of an
	// evaluation's values: some 3 MiB.
	madeBytesPerUnit = 32
	// zoneWork is the work of loading a time zone, which is read from a file.
	zoneWork = maxWork / 10
)

// The memory of a list and of a map without their elements, and of an element and of an entry.
const (
	listBytes, elementBytes = 160, 16
	mapBytes, entryBytes    = 448, 64
)

// literalWork returns the work of creating a literal, without its elements' own steps.
func literalWork(made interpreter.InterpretableConstructor) uint64 {
	n := uint64(len(made.InitVals()))
	if made.Type() == types.ListType {
		return (listBytes + n*elementBytes) / madeBytesPerUnit
	}
	return (mapBytes + n*entryBytes) / madeBytesPerUnit // n counts keys and values
}

// workOf returns the work of a call of the function, without its own step. A function without a rule of its own costs one pass over all its
// texts, so that a function of a later version of the library is not free.
func workOf(function string) func(args []ref.Val) uint64 {
	if work, ok := rules[function]; ok {
		return work
	}
	if strings.HasPrefix(function, "get") { // of a time: getHours, getFullYear and so on
		return func(args []ref.Val) uint64 { return uint64(len(args)-1)*zoneWork + linear(args) }
	}
	return linear
}

var rules = map[string]func(args []ref.Val) uint64{
	operators.Equals:    comparing,
	operators.NotEquals: comparing,
	operators.In:        searching,
	operators.OldIn:     searching,
	operators.Add:       adding,
	rangeName:           ranging,
	"sets.contains":     crossing,
	"sets.equivalent":   crossing,
	"sets.intersects":   crossing,
	"indexOf":           scanning,
	"lastIndexOf":       scanning,
	"replace":           replacing,
	"split":             splitting,
	"join":              joining,
	"format":            formatting,
	"optional.unwrap":   listing,
	"unwrapOpt":         listing,
}

func linear(args []ref.Val) uint64 {
	var n uint64
	for _, arg := range args {
		n += text(arg)
	}
	return n / bytesPerUnit
}

// text returns the length in bytes of a string or bytes, 0 of anything else.
func text(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

func size(v ref.Val) uint64 {
	if sized, ok := v.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 1
}

// comparing ends at the end of the smaller of the two.
func comparing(args []ref.Val) uint64 { return lesserDepth(args[0], args[1]) }

// searching compares with each element of a list; in a map it is one lookup.
func searching(args []ref.Val) uint64 {
	if _, list := args[1].(traits.Lister); list {
		return times(size(args[1]), args[0])
	}
	return linear(args)
}

// adding copies both.
func adding(args []ref.Val) uint64 {
	if _, grows := args[0].(traits.MutableLister); grows {
		return 0
	}
	if _, list := args[0].(traits.Lister); list {
		return size(args[0]) + size(args[1])
	}
	return linear(args)
}

func crossing(args []ref.Val) uint64 {
	return times(size(args[0]), args[1]) + times(size(args[1]), args[0])
}

// times returns the work of reading a value n times. Without a time the value is not measured, which would not be charged.
func times(n uint64, v ref.Val) uint64 {
	if n == 0 {
		return 0
	}
	return n * depth(v)
}

// scanning compares the second text with the first at each position.
func scanning(args []ref.Val) uint64 {
	return text(args[0]) / bytesPerUnit * max(1, text(args[1])/2)
}

func replacing(args []ref.Val) uint64 {
	s, old, ok := texts(args)
	if !ok || text(args[0]) > maxWork*bytesPerUnit {
		return linear(args)
	}
	return (text(args[0]) + uint64(strings.Count(s, old))*text(args[2])) / bytesPerUnit
}

// splitting makes each piece, for one unit.
func splitting(args []ref.Val) uint64 {
	s, separator, ok := texts(args)
	if !ok || text(args[0]) > maxWork*bytesPerUnit {
		return linear(args)
	}
	return linear(args) + uint64(strings.Count(s, separator)+1)
}

func texts(args []ref.Val) (first, second string, ok bool) {
	a, isText := args[0].(types.String)
	b, bothText := args[1].(types.String)
	return string(a), string(b), isText && bothText
}

func joining(args []ref.Val) uint64 {
	n := depth(args[0])
	if len(args) > 1 {
		n += size(args[0]) * text(args[1]) / bytesPerUnit
	}
	return n
}

func listing(args []ref.Val) uint64 { return size(args[0]) }

// formatting writes each argument once, and the content of a map once more, numbers with as many digits as the format names.
func formatting(args []ref.Val) uint64 {
	format, _ := args[0].(types.String)
	n := linear(args) + 2*copying(args[1])
	var digits uint64
	for _, c := range []byte(format) {
		if c < '0' || c > '9' {
			digits = 0
			continue
		}
		// Each digit adds the growth of the number, so that the sum of all numbers is charged.
		grown := min(10*digits+uint64(c-'0'), maxWork*bytesPerUnit)
		n += (grown - digits) / bytesPerUnit
		digits = grown
	}
	return n
}
