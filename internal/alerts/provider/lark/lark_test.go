package lark

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// check returns an error for a message that Lark refuses.
func check(r *http.Request, body []byte) error {
	type content struct{ Tag, Content string }
	var m struct {
		Timestamp, Sign string
		MsgType         string `json:"msg_type"`
		Card            struct {
			Config struct {
				WideScreenMode bool `json:"wide_screen_mode"`
			}
			Header struct {
				Title    content
				Template string
			}
			Elements []struct {
				Tag  string
				Text content
			}
		}
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		return errors.New("method or content type")
	case len(body) > 20_000:
		return fmt.Errorf("%d bytes", len(body))
	case (m.Timestamp == "") != (m.Sign == ""):
		return errors.New("a time without signature or a signature without time")
	case m.MsgType != "interactive" || m.Card.Header.Title.Tag != "plain_text" || m.Card.Header.Title.Content == "":
		return errors.New("no card or no title")
	case m.Card.Header.Template != "turquoise" && m.Card.Header.Template != "red":
		return errors.New("template")
	case len(m.Card.Elements) == 0:
		return errors.New("no elements")
	}
	for _, e := range m.Card.Elements {
		if e.Tag != "div" || e.Text.Tag != "lark_md" || e.Text.Content == "" {
			return errors.New("element")
		}
	}
	return nil
}

const answer = `{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "lark"}, Serve: providertest.Vendor(t, answer, check), Reads: true,
	})
}

var now = time.Unix(1599360473, 0)

func newTest(t *testing.T, secret string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, func(cfg provider.Config) (*provider.Client, error) {
		return newSender(cfg, func() time.Time { return now })
	}, provider.Config{Address: sink.URL + "/open-apis/bot/v2/hook/x", Token: secret, Network: providertest.Loopback()}), sink
}

func TestPayloads(t *testing.T) {
	for name, secret := range map[string]string{"card": "", "signed": "secret"} {
		s, sink := newTest(t, secret, providertest.Vendor(t, answer, check))
		t.Run(name, func(t *testing.T) { providertest.Golden(t, name, s, sink) })
	}
}

// The value was computed with "printf ” | openssl dgst -sha256 -mac HMAC -macopt hexkey:<key in hex> -binary | base64".
func TestASecretSignsTheTime(t *testing.T) {
	if timestamp, sign := sign("demo", now); timestamp != "1599360473" || sign != "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=" {
		t.Errorf("%s, %s", timestamp, sign)
	}
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newTest(t, "secret", providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when every HTTP 200 counts as a success, which loses the message, or when an unknown part of an answer is shown.
func TestOnlyCodeZeroIsASuccess(t *testing.T) {
	for body, want := range map[string]struct {
		status        int
		class         event.Class
		label, reason string
	}{
		`{"code":0,"msg":"success"}`:                           {200, 0, "", ""},
		`{"StatusCode":0,"StatusMessage":"success"}`:           {200, 0, "", ""},
		`{"code":19024,"msg":"Key Words Not Found","data":{}}`: {200, event.Permanent, "rejected", "Lark: Key Words Not Found"},
		`{"StatusCode":0,"code":19001,"msg":"hush"}`:           {200, event.Permanent, "rejected", "Lark: Incoming webhook access token invalid"},
		`{"code":9499,"msg":"Bad Request"}`:                    {200, event.Permanent, "rejected", "Lark: Bad Request"},
		`{"code":9499,"msg":"too many request"}`:               {200, event.Retry, "http_429", "Lark: too many requests"},
		`{"code":11232,"msg":"frequency limited psm[hush]"}`:   {200, event.Retry, "http_429", "Lark: too many requests"},
		`{"code":77,"msg":"hush"}`:                             {200, event.Retry, "rejected", "Lark refused the message with an unknown code"},
		`{"msg":"success"}`:                                    {200, event.Retry, "reply", "answer is not one of Lark's"},
		`{"code":"0"}`:                                         {200, event.Retry, "reply", "answer is not one of Lark's"},
		`<html>hush`:                                           {200, event.Retry, "reply", "answer is a web page"},
		``:                                                     {200, event.Retry, "reply", "answer is not one of Lark's"},
		`{"code":19001}`: {
			400, event.Permanent, "http_4xx", "HTTP 400: Incoming webhook access token invalid",
		},
		`{"code":11232,"msg":"frequency limited"}`: {400, event.Retry, "http_429", "HTTP 400 (rate limit)"},
		`{"code":78,"msg":"hush"}`:                 {403, event.Permanent, "http_4xx", "HTTP 403"},
	} {
		s, _ := newTest(t, "", providertest.Says(want.status, body))
		err := s.Send(t.Context(), providertest.Notifications(t)["info"])
		if want.reason == "" && err == nil {
			continue
		}
		if got := event.AsError(err); err == nil || got.Class != want.class || got.Label != want.label || got.Reason != want.reason {
			t.Errorf("%s: got %v, want %+v", body, err, want)
		}
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup = "<at id=all></at> [a](https://b.test/x_y) **c**"
	const escaped = "&lt;at id=all&gt;&lt;/at&gt; &#91;a&#93;&#40;https://b.test/x_y&#41; &#42;&#42;c&#42;&#42;"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "x": markup}
	n.Authored = []string{"summary"}
	c := newCard(n, 1000, 1000)
	if c.Elements[0].Text.Content != escaped || c.Elements[1].Text.Content != "**summary**: "+markup+"\n**x**: "+escaped {
		t.Errorf("got %+v", c)
	}
}

func TestOnlyLarksHostsAreLimited(t *testing.T) {
	for address, want := range map[string]provider.Limit{
		"https://open.feishu.cn/open-apis/bot/v2/hook/x": {Rate: 100.0 / 60, Burst: 5},
		"https://open.LarkSuite.com./x":                  {Rate: 100.0 / 60, Burst: 5},
		"https://notfeishu.cn/x":                         {}, "https://open.feishu.cn.example.test/x": {},
	} {
		s, err := New(provider.Config{Address: address})
		if err != nil || s.Limit() != want {
			t.Errorf("%s: %v", strings.TrimPrefix(address, "https://"), err)
		}
	}
}
