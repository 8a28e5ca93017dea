package cel_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/alloctest"
	"notifier/internal/receiver/cel"
)

const body = 3 << 20

// hostile returns bodies of 3 MiB that make one operation as expensive as possible. Their decoding is slow, and no expression changes them.
var hostile = sync.OnceValue(func() map[string]any {
	text := strings.Repeat("a", body/2)
	numbers := "[" + strings.Repeat("1,", body/8) + "2]"
	tree := "[" + strings.Repeat(`{"a":[{}]},`, body/40) + "{}]"
	var req map[string]any
	many := make([]string, 200_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"%x":1`, i)
	}
	source := fmt.Sprintf(`{"text":%q,"numbers":%s,"tree":%s,"many":{%s},"pattern":"(a*)*b","small":"%s"}`,
		text, numbers, tree, strings.Join(many, ","), strings.Repeat("ab", 50))
	if err := json.Unmarshal([]byte(source), &req); err != nil {
		panic(err)
	}
	// Values that share no memory, so that a comparison of them has no shortcut.
	var twin map[string]any
	if err := json.Unmarshal([]byte(source), &twin); err != nil {
		panic(err)
	}
	req["twin"] = twin
	deep := any(strings.Repeat("a", 100<<10))
	for range 9000 { // encoding/json reads 10,000
		deep = map[string]any{"a": deep}
	}
	req["deep"] = deep
	// The watchers' objects have metadata of types that encoding/json does not create.
	labels, names := map[string]string{}, make([]string, 1000)
	for i := range names {
		names[i] = strings.Repeat("n", 200) + strconv.Itoa(i)
		labels[names[i]] = names[i]
	}
	twin["metadata"] = map[string]any{"labels": labels, "names": names}
	return map[string]any{"req": req, "res": twin}
})

// list returns a literal of n numbers.
func list(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]" }

// attacks returns expressions of great cost. %s is an expression that is repeated up to the longest source.
func attacks() map[string]string {
	loop := list(60)
	many := func(expression string) string {
		return loop + ".all(i," + loop + ".all(j," + loop + ".all(k, " + expression + ")))"
	}
	// pairs has so few rounds that it stays below an expression's limit unless each repetition is charged.
	few := list(50)
	pairs := func(expression string) string { return few + ".all(i," + few + ".all(j, " + expression + "))" }
	chain := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+" && ", n), " && ") }
	return map[string]string{
		"nested loops":           many("true"),
		"nested loops, fields":   many("req.small != res.pattern"),
		"loops over the body":    "req.numbers.all(i, req.numbers.all(j, i <= j || true))",
		"maps over the body":     "req.numbers.map(i, i).size() > 0",
		"constants":              many(chain(200, "true")),
		"list literals":          many(chain(5, list(300)+".size()>0")),
		"documents compared":     chain(60, "req.twin == res"),
		"metadata compared":      pairs("res.metadata == res.metadata"),
		"stand-ins":              pairs("optional.none()" + strings.Repeat(".or(optional.none())", 25) + ".hasValue() == false"),
		"stand-in values":        pairs(strings.Repeat("optional.none().orValue(", 25) + "1" + strings.Repeat(")", 25) + " == 1"),
		"lists compared":         many("req.numbers == res.numbers"),
		"documents not equal":    chain(60, "!(req.twin != res)"),
		"trees searched":         "req.tree.all(t, t in res.tree)",
		"lists crossed":          "sets.contains(req.numbers, res.numbers)",
		"lists the same":         "sets.equivalent(req.numbers, res.numbers)",
		"lists meet":             "sets.intersects(req.tree, res.numbers)",
		"text searched":          many(`req.text.contains("aaaab")`),
		"text compared":          many("req.text == res.text"),
		"text ordered":           many("req.text <= res.text"),
		"text measured":          many("req.text.size() > 0"),
		"text lowered":           many(`req.text.lowerAscii() != ""`),
		"text reversed":          many(`req.text.reverse() != ""`),
		"text cut":               many(`req.text.substring(1) != ""`),
		"a character":            many(`req.text.charAt(1) != ""`),
		"text trimmed":           many(`req.text.trim() != ""`),
		"text split":             `req.text.split("").size() > 0`,
		"text split and joined":  `req.text.split("a").join(req.small) != ""`,
		"text replaced":          `req.text.replace("a", req.small).size() > 0`,
		"text replaced by count": many(`req.small.replace("", req.small, 100).size() > 0`),
		"text doubled":           "(" + strings.TrimSuffix(strings.Repeat("req.text + ", 90), " + ") + `) != ""`,
		"index of, naive":        `req.text.indexOf(req.text.substring(700000) + "b") > 0`,
		"last index of":          `req.text.lastIndexOf("b" + req.small) > 0`,
		"base64":                 many(`base64.encode(bytes(req.text)) != ""`),
		"base64 back":            many(`base64.decode(req.text) != b""`),
		"quoted":                 many(`strings.quote(req.text) != ""`),
		"formatted":              many(`"%s".format([req.tree]) != ""`),
		"formatted wide":         many(`"%.900000f%.900000f".format([1.0,2.0]) != ""`),
		"to a number":            many(`int(req.text) == 1 || true`),
		"to a time":              many(`timestamp(req.text) == timestamp(0) || true`),
		"time zones":             many(`timestamp(0).getHours("Europe/Berlin") >= 0`),
		"time zones of the body": strings.TrimSuffix(strings.Repeat(`(timestamp(0).getHours(req.text) >= 0 || true) && `, 9), " && "),
		"pattern":                many(`req.small.matches("(x+x+)+y|(a|b|ab)*c") || true`),
		"pattern, repeated":      `req.text.matches("((a{0,30}){0,30})b")`,
		"pattern, long text":     `req.text.matches("(a|aa)*b") || true`,
		"pattern from the body":  many(`req.small.matches(req.pattern) || true`),
		"pattern made":           many(`req.small.matches("(a|b|[ab]{0,20}){0,20}" + req.pattern) || true`),
		"lists chained":          loop + ".all(i, (" + strings.TrimSuffix(strings.Repeat("[1]+", 60), "+") + ").all(j, true))",
		"body in a key":          many(`(req[req.text] == 1) || true`),
		"conditions, long paths": many("(req.small == \"\" ? req" + strings.Repeat(".twin", 1) + ".a" + strings.Repeat(".a", 80) + " : req.small) != \"\""),
		"maps made":              many(`{req.small: req.tree}.size() > 0`),
		"optional chain":         "optional.of(1)" + strings.Repeat(".optMap(a,a)", 90) + ".hasValue()",
		"optionals nested":       strings.Repeat("optional.of(1).optMap(a,", 40) + "a" + strings.Repeat(")", 40) + ".hasValue()",
		"parentheses":            strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000),
		"brackets":               strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + " == []",
		"nots":                   strings.Repeat("!", 4000) + "true",
		"conditions":             strings.Repeat("true ? ", 90) + "true" + strings.Repeat(" : true", 90),
		"nested too deep":        strings.Repeat("[0].all(x,", 6) + "true" + strings.Repeat(")", 6),
		"nested maps":            strings.Repeat(strings.Repeat("{1:", 25)+"1"+strings.Repeat("}", 25)+" == {} || ", 35) + "false",
		"nested maps, deep":      strings.Repeat(strings.Repeat("{1:", 90)+"1"+strings.Repeat("}", 90)+" == {} || ", 10) + "false",
		"maps begun":             pairs(chain(20, "req.many.exists(x, true)")),
		"metadata begun":         pairs(chain(20, "res.metadata.labels.exists(x, true)")),
		// A few rounds, in which the context is not looked at: what one costs beyond its charge is multiplied.
		"a document and nothing": list(30) + ".all(i, " + chain(130, "req.tree != i") + ")",
		"a document in nothing":  "[[]].all(n, " + list(30) + ".all(i, " + chain(120, "!(req.tree in n)") + "))",
		"a list and nothing":     "[[req.tree]].all(l, [[]].all(n, " + list(30) + ".all(i, " + chain(120, "sets.contains(l, n)") + ")))",
		// Errors, and texts, that a whole document would be written into, with all of it once more for each map around.
		"a deep map formatted":      `"%s".format([req.deep]) != ""`,
		"a deep map in a text":      `[0,1].map(i, i == 0 ? dyn("a") : req.deep).join("") == "" || true`,
		"a deep map, no optional":   `[0,1].map(i, i == 0 ? dyn(optional.of(1)) : req.deep).unwrapOpt() == [] || true`,
		"a deep map, not unwrapped": `optional.unwrap([0,1].map(i, i == 0 ? dyn(optional.of(1)) : req.deep)) == [] || true`,
		"a deep map for an element": `"%s".format([[?req.deep]]) == "" || true`,
		"a deep map for an entry":   `"%s".format([{?"a": req.deep}]) == "" || true`,
		"a deep map or nothing":     `[?req.deep.or(optional.none())] == [] || true`,
		"a deep map in a message":   `google.protobuf.Int32Value{?value: req.deep} == 1 || true`,
		"sums":                      strings.TrimSuffix(strings.Repeat("1+", 1900), "+") + " > 0",
	}
}

// One webhook, or one spec, must not occupy a processor. Fails when a call is not charged, or not before it is made, and when the macros of
// optional values write their value twice.
func TestNoExpressionIsExpensive(t *testing.T) {
	vars := hostile()
	// Far longer than the few milliseconds of an evaluation, for the race detector on a busy machine.
	const (
		mayCompile = 5 * time.Second
		mayTake    = 5 * time.Second
		mayUse     = 64 << 20
	)
	// Only their compilation, or the measurement of their work, could be expensive.
	cheap := map[string]bool{
		"nested maps": true, "nots": true, "optional chain": true, "optionals nested": true,
		"a document and nothing": true, "a document in nothing": true, "a list and nothing": true,
		"a deep map in a text": true, "a deep map, no optional": true, "a deep map, not unwrapped": true, "a deep map for an element": true,
		"a deep map for an entry": true, "a deep map or nothing": true, "a deep map in a message": true,
	}
	for name, source := range attacks() {
		start := time.Now()
		p, err := cel.Compile(source, cel.Bool, "req", "res")
		compiled := time.Since(start)
		if compiled > mayCompile {
			t.Errorf("%s: compiled in %v", name, compiled)
		}
		if err != nil {
			t.Logf("%-24s not compiled, %8v: %.80s", name, compiled.Round(time.Microsecond), err)
			continue
		}
		start = time.Now()
		used := alloctest.Bytes(func() { _, err = p.Bool(t.Context(), vars) })
		took := time.Since(start)
		if want := map[bool]error{false: cel.ErrCost}[cheap[name]]; err != want { //nolint:errorlint // a Failure is never wrapped
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		t.Logf("%-24s %8v %7d KiB, compiled %8v: %v", name, took.Round(10*time.Microsecond), used>>10, compiled.Round(10*time.Microsecond), err)
		if took > mayTake || used > mayUse {
			t.Errorf("%s: took %v, used %d MiB", name, took, used>>20)
		}
	}
}

// Fails when the permitted nesting makes the compilation of an expression take a second.
func TestNestingHasABound(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) + " == []" }
	if _, err := cel.Compile(nested(20), cel.Bool); err != nil {
		t.Error(err)
	}
	if _, err := cel.Compile(nested(40), cel.Bool); err == nil {
		t.Error("40 levels are compiled")
	}
}

// A Receiver may have a thousand expressions of one digit. Fails when each keeps an environment of its own, which is 35 KiB, or a table of
// all functions, which is 22 KiB.
func TestASmallProgramIsSmall(t *testing.T) {
	const programs = 200
	kept := make([]*cel.Program, programs)
	compile := func() *cel.Program {
		p, err := cel.Compile("1", cel.Any, "claims", "vars")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// The first program makes the parts that programs share.
	compile()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // frees the pools of earlier tests, after the first GC
	runtime.ReadMemStats(&before)
	for i := range kept {
		kept[i] = compile()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / programs; each > 16<<10 {
		t.Errorf("a program of one digit keeps %d bytes", each)
	}
	runtime.KeepAlive(kept)
}

// The memory of evaluations of one budget together must not grow with their number. Fails when a new list or map is not charged for its
// memory, and when each evaluation has a budget of its own.
func TestTheValuesOfABudgetAreSmall(t *testing.T) {
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	thousand := func(made string) string {
		return ten + ".map(a," + ten + ".map(b," + ten + ".map(c," + made + ")))"
	}
	const evaluations, mayHold = 100, 6 << 20
	vars := hostile()
	for name, source := range map[string]string{
		"maps": thousand("{a:b}"), "empty maps": thousand("{}"), "maps in maps": thousand("{a:{b:{c:{}}}}"),
		"wide maps": thousand("{a:b,10:c,11:a,12:b,13:c,14:a,15:b,16:c,17:a}"), "lists": thousand("[a,b,c]"),
		"empty lists": thousand("[]"), "lists in lists": thousand("[[[[a]]]]"), "lists added": thousand("[a]+[b]"),
		"one list": list(1000), "numbers": thousand("a+1000*b"), "times": thousand("timestamp(a)"), "optionals": thousand("optional.of(a)"),
		"texts": thousand("string(a)"), "texts added": thousand(`string(a)+"b"`), "long texts": thousand(`req.small+req.small`),
		"parts": thousand(`"a-b-c".split("-")`), "documents": thousand("req.twin"),
	} {
		p, err := cel.Compile(source, cel.Any, "req", "res")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		budget, values := cel.NewBudget(), make([]any, 0, evaluations)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range evaluations {
			if value, err := budget.Eval(t.Context(), p, vars); err == nil {
				values = append(values, value)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		t.Logf("%-16s %3d values hold %5d KiB", name, len(values), held>>10)
		if len(values) == 0 || len(values) == evaluations || held > mayHold {
			t.Errorf("%s: %d values hold %d KiB", name, len(values), held>>10)
		}
		runtime.KeepAlive(values)
	}
	runtime.KeepAlive(vars)
}

// Fails when the permitted parts make the compilation of an expression take a third of a second.
func TestPartsHaveABound(t *testing.T) {
	for name, part := range map[string]string{
		"calls": "1==1", "lists": "[]==dyn(1)", "maps": "{}==dyn(1)", "fields": "req[1]==1", "macros": "[].map(x,x)==[]", "choices": "(true?true:false)",
		"numbers": "1 in " + list(9),
	} {
		long := strings.TrimSuffix(strings.Repeat(part+"||", 4000/(len(part)+2)), "||")
		if _, err := cel.Compile(long, cel.Bool, "req"); err == nil || !strings.Contains(err.Error(), "parts") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, ordinary := range []string{
		strings.TrimSuffix(strings.Repeat(`req.ref == "refs/heads/main" || `, 120), "|| "),
		"req.ref in [" + strings.TrimSuffix(strings.Repeat(`"refs/heads/main",`, 200), ",") + "]",
	} {
		if _, err := cel.Compile(ordinary, cel.Bool, "req"); err != nil {
			t.Error(err)
		}
	}
}
