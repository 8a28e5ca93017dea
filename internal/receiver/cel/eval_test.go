package cel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"notifier/internal/receiver/cel"
)

// secret is in the data; no error may contain it.
const secret = "hunter2"

func document(tb testing.TB) map[string]any {
	tb.Helper()
	var req map[string]any
	if err := json.Unmarshal([]byte(`{
		"ref": "refs/heads/main", "secret": "hunter2", "n": 3, "big": 12345678901, "flag": true, "none": null, "empty": [],
		"commits": [{"modified": ["apps/a.yaml", "b"]}, {"modified": []}], "labels": {"a": "b", "when": "2026-01-02T03:04:05Z"}
	}`), &req); err != nil {
		tb.Fatal(err)
	}
	return map[string]any{"req": req, "res": map[string]any{"metadata": map[string]any{"name": "main"}}}
}

// Fails when a part of Flux's language is missing, or when a metered step gives another value than the library's.
func TestTheLanguageIsThatOfFlux(t *testing.T) {
	for _, source := range []string{
		`req.n == 3 && 3 == req.n && req.n < 4 && req.n + 1.0 == 4.0 && req.n != 2`,
		`req.flag == true && req.none == null && has(req.ref) && !has(req.absent) && !has(req.labels.absent)`,
		`req.ref.matches("^refs/heads/(main|release-.*)$") && matches(req.ref, "main") && !req.ref.matches("^main")`,
		`req.ref.matches("^" + "refs" + ".*n$")`,
		`req.commits.exists(c, c.modified.exists(f, f.startsWith("apps/"))) && req.commits.all(c, has(c.modified))`,
		`req.commits.map(c, size(c.modified)) == [2, 0] && req.commits.filter(c, c.modified.size() > 0).size() == 1`,
		`[1] + [2] + [3] == [1, 2, 3] && ([1] + [2]).map(x, x * 2)[1] == 4 && [1, 2].exists_one(x, x == 2)`,
		`req.ref.split("/").join("-") == "refs-heads-main" && req.ref.substring(11) == "main" && req.ref.indexOf("h") == 5`,
		`req.ref.replace("main", "x").upperAscii() == "REFS/HEADS/X" && " a ".trim() == "a" && "%s-%.1f".format(["a", 1.5]) == "a-1.5"`,
		`"refs/heads/" + res.metadata.name == req.ref && req.ref.endsWith(res.metadata.name) && req.ref.contains("heads")`,
		`sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])`,
		`base64.decode(base64.encode(b"hello")) == b"hello" && string(b"a") == "a" && int("4") == 4 && double(req.n) == 3.0`,
		`"a" in req.labels && !("z" in req.labels) && "b" in ["a", "b"] && req.labels["a"] == "b" && req.labels[req.labels["a"] + "" == "b" ? "a" : "z"] == "b"`,
		`req.?absent.orValue("x") == "x" && req.?ref.orValue("x") == req.ref && req.labels[?"a"].hasValue() && !req.?a.?b.hasValue()`,
		`req.ref.orValue("x") == req.ref && req.ref.or(optional.of("x")) == req.ref`,
		`req.?ref.optMap(r, r + "!").orValue("") == "refs/heads/main!" && req.?labels.optFlatMap(l, l.?a).value() == "b"`,
		`req.?ref.or(optional.of("x")).value() == req.ref && req.?absent.or(req.?ref).value() == req.ref && !req.?absent.or(req.?ref.?a).hasValue()`,
		`!req.?absent.optMap(r, r + "!").hasValue() && optional.of(1).optFlatMap(a, optional.of(2).optMap(b, a + b)).value() == 3`,
		`[?req.?absent, ?req.?ref] == [req.ref] && {?"a": req.?absent, ?"b": req.?ref} == {"b": req.ref} && [req.?ref, req.?absent].unwrapOpt() == [req.ref]`,
		`timestamp(req.labels.when).getHours() == 3 && timestamp(req.labels.when).getFullYear("UTC") == 2026 && duration("1h") < duration("2h")`,
		`type(req.n) == double && string(req.big) == "1.2345678901e+10" && (req.absent == 1 || true) && (req.n == 3 ? true : req.absent)`,
		`[[1], [2]] == [[1], [2]] && {"a": 1} != {"a": 2} && req.n == 3u && req.labels == req.labels && req.labels != {} && dyn([1]) != dyn("1")`,
	} {
		p, err := cel.Compile(source, cel.Bool, "req", "res")
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := p.Bool(t.Context(), document(t)); err != nil || !got {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
}

// Conditions and logs show these errors. Fails when an error of the interpreter, which quotes values, is passed on.
func TestFailuresQuoteNothingOfTheData(t *testing.T) {
	for source, want := range map[string]cel.Failure{
		`req.labels[req.secret] == "x"`:          cel.ErrNoKey,
		`req.absent == 1`:                        cel.ErrNoKey,
		`req.commits[7] == 1`:                    cel.ErrIndex,
		`req.ref + req.n == "x"`:                 cel.ErrType,
		`req.secret.startsWith(req.n)`:           cel.ErrType,
		`req.secret < 4`:                         cel.ErrType,
		`int(req.secret) == 1`:                   cel.ErrFailed,
		`timestamp(req.secret) == timestamp(0)`:  cel.ErrFailed,
		`duration(req.secret) == duration("1s")`: cel.ErrFailed,
		`req.ref.matches(req.secret + "(")`:      cel.ErrFailed,
		`[req.n].join() == req.secret`:           cel.ErrType,
		`[?req.secret.or(req.?ref)] == []`:       cel.ErrType,
		`1 / int(req.n - 3.0) == 1`:              cel.ErrArithmetic,
		`req.commits.all(c, c.absent)`:           cel.ErrNoKey,
		`optional.none().value() == 1`:           cel.ErrFailed,
	} {
		p, err := cel.Compile(source, cel.Bool, "req", "res")
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		_, err = p.Bool(t.Context(), document(t))
		if err != want { //nolint:errorlint // a Failure is never wrapped
			t.Errorf("%s: %v, want %v", source, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v quotes the data", source, err)
		}
	}
}

// A value of one program is read by the next, as "vars". Fails when Eval returns a value that the language cannot read.
func TestAValueIsReadByTheNextProgram(t *testing.T) {
	first, err := cel.Compile(`claims.sub.split(":")`, cel.Any, "claims")
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"sub": "repo:org"}
	value, err := first.Eval(t.Context(), map[string]any{"claims": claims})
	if err != nil {
		t.Fatal(err)
	}
	second, err := cel.Compile(`vars.parts[1] == "org" && vars.parts.size() == 2`, cel.Bool, "claims", "vars")
	if err != nil {
		t.Fatal(err)
	}
	got, err := second.Bool(t.Context(), map[string]any{"claims": claims, "vars": map[string]any{"parts": value}})
	if err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
	if first.Reads("vars") || !second.Reads("vars") || second.Reads("claims") {
		t.Error("what the programs read is not told")
	}
}

// Fails when an evaluation goes on after its request has ended.
func TestAnEvaluationEndsWithItsContext(t *testing.T) {
	ones := "[" + strings.TrimSuffix(strings.Repeat("1,", 100), ",") + "]"
	p, err := cel.Compile(ones+".all(i, "+ones+".all(j, true))", cel.Bool)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Bool(ctx, nil); err != cel.ErrInterrupted { //nolint:errorlint // a Failure is never wrapped
		t.Errorf("%v", err)
	}
}

// FuzzCompile looks for a source, or a document under it, that panics or is slow. The interpreter turns panics into errors, so a panic
// shows as ErrFailed of a program that reads nothing.
func FuzzCompile(f *testing.F) {
	for _, name := range []string{"nots", "optional chain", "nested maps", "sums", "lists chained", "pattern, repeated"} {
		f.Add(attacks()[name], `{"a": [1, "b", {"c": null}]}`)
	}
	f.Add(`req.a[1] == "b" && req.a.exists(x, x == 1)`, `{"a": [1, "b"]}`)
	f.Fuzz(func(t *testing.T, source, body string) {
		p, err := cel.Compile(source, cel.Any, "req", "res")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		var req map[string]any
		if json.Unmarshal([]byte(body), &req) != nil {
			return
		}
		_, _ = p.Eval(t.Context(), map[string]any{"req": req, "res": map[string]any{}})
	})
}

// Fails when the end of an evaluation is an error value, which "||" and the comprehensions around it swallow: a filter of a few comprehensions
// then goes on for a minute.
func TestAnInterruptionEndsTheWholeEvaluation(t *testing.T) {
	p, err := cel.Compile(list(64)+".all(i, true) || true", cel.Bool)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if holds, err := p.Bool(ctx, nil); !errors.Is(err, cel.ErrInterrupted) {
		t.Errorf("got %v, %v, want %v", holds, err, cel.ErrInterrupted)
	}
}

// Fails when the function around what a comprehension goes over changes its type, or is shown in an error.
func TestWhatAComprehensionGoesOverKeepsItsType(t *testing.T) {
	for source, want := range map[string]string{
		`["a"].map(x, x).map(y, y + "b")[0]`:               "",
		`{"a": "b"}.map(k, k)[0]`:                          "",
		`"a-b".split("-").filter(x, x != "a")[0]`:          "",
		`optional.of("a").optMap(x, x + "b").orValue("c")`: "",
		`"a-b".split("-").map(x, x + 1)[0]`:                "no matching overload",
		`("a" + "b").map(x, x)[0]`:                         "cannot be range of a comprehension",
	} {
		_, err := cel.Compile(source, cel.String)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", source, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "@") || strings.Contains(err.Error(), ":-1:")):
			t.Errorf("%s: got %v, want %q and its place", source, err, want)
		}
	}
}
