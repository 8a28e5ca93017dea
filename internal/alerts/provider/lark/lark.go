package lark

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const maxReply = 16 << 10 // bytes

// New returns a Sender to one custom bot, which posts a notification as one card.
func New(cfg provider.Config) (*provider.Client, error) { return newSender(cfg, time.Now) }

func newSender(cfg provider.Config, now func() time.Time) (*provider.Client, error) {
	secret := cfg.Token
	return provider.NewClient(cfg, provider.ClientOptions{
		Login: checkSecret, MaxReply: maxReply, Word: word, Wait: wait,
		Limit: provider.LimitOn(provider.Limit{Rate: 100.0 / 60, Burst: 5}, "feishu.cn", "larksuite.com"), Outcome: outcome,
		Message: func(_ *provider.Client, n provider.Notification) (provider.Request, error) {
			body, err := body(n, secret, now())
			return provider.Request{Body: body}, err
		},
	})
}

// checkSecret checks the secret of a bot that verifies signatures. A bot takes no other login.
func checkSecret(cfg provider.Config) (http.Header, error) {
	if cfg.Token == "" {
		return nil, nil
	}
	return nil, provider.CheckKey("token", cfg.Token)
}

// sign returns the time and the signature for a bot with a secret, empty without a secret. The signature is an HMAC of nothing whose
// key is the time and the secret.
func sign(secret string, now time.Time) (timestamp, sign string) {
	if secret == "" {
		return "", ""
	}
	timestamp = strconv.FormatInt(now.Unix(), 10)
	return timestamp, base64.StdEncoding.EncodeToString(hmac.New(sha256.New, []byte(timestamp+"\n"+secret)).Sum(nil))
}

type reply struct {
	Code       *int   `json:"code"`
	StatusCode *int   `json:"StatusCode"` // of older bots, beside or in place of code
	Msg        string `json:"msg"`
}

// parse returns the code of an answer. ok reports whether the answer is one of Lark's.
func parse(answer []byte) (r reply, code int, ok bool) {
	if json.Unmarshal(answer, &r) != nil || r.Code == nil && r.StatusCode == nil {
		return r, 0, false
	}
	return r, *cmp.Or(r.Code, r.StatusCode), true
}

// codes are the codes of permanent refusals: the configuration has to change.
var codes = map[int]string{
	9499: "Bad Request", 11246: "Bad card", 19001: "Incoming webhook access token invalid", 19002: "Invalid param",
	19021: "Sign match fail or timestamp is not within one hour from current time", 19022: "IP not allowed", 19024: "Key Words Not Found",
}

// limited reports whether an answer is a limit. The code 9499 means a limit or a bad request.
func limited(r reply, code int) bool {
	return code == 11232 || code == 99991400 || code == 9499 && strings.HasPrefix(strings.ToLower(r.Msg), "too many request")
}

// outcome classifies an answer of HTTP 200.
func outcome(answer []byte) error {
	r, code, ok := parse(answer)
	switch {
	case !ok:
		return event.NewError(event.Retry, provider.LabelReply, "answer is not one of Lark's", nil)
	case code == 0:
		return nil
	case limited(r, code):
		return event.NewError(event.Retry, provider.LabelLimited, "Lark: too many requests", nil)
	case codes[code] != "":
		return event.NewError(event.Permanent, provider.LabelRejected, "Lark: "+codes[code], nil)
	default:
		return event.NewError(event.Retry, provider.LabelRejected, "Lark refused the message with an unknown code", nil)
	}
}

// word returns the part of a refusal's answer that is shown.
func word(answer []byte) string {
	r, code, ok := parse(answer)
	if !ok || limited(r, code) {
		return ""
	}
	return codes[code]
}

// wait recognizes a limit under any status. Lark gives no time to wait.
func wait(_ int, _ http.Header, answer []byte) (time.Duration, bool) {
	r, code, ok := parse(answer)
	return 0, ok && limited(r, code)
}
