package discord

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
)

// New returns a Sender to one webhook, which posts a notification as one embed.
func New(cfg provider.Config) (*provider.Client, error) {
	cfg.Address = webhook(cfg.Address)
	name := cfg.Username
	return provider.NewClient(cfg, provider.ClientOptions{
		Word: word, Wait: wait, Limit: provider.LimitOn(provider.Limit{Rate: 0.5, Burst: 5}, "discord.com", "discordapp.com"), // 30 a minute
		Message: func(_ *provider.Client, n provider.Notification) (provider.Request, error) {
			return provider.Request{JSON: newMessage(n, name)}, nil
		},
	})
}

// webhook returns the address of the webhook without Slack's variant. By its query Discord answers only when it has saved the message. That is
// the default of Slack's variant alone.
func webhook(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return address // NewClient refuses it
	}
	path := strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), "/slack"), "/")
	if u.Path, err = url.PathUnescape(path); err != nil {
		return address
	}
	u.RawPath = path
	query := u.Query()
	query.Set("wait", "true")
	u.RawQuery = query.Encode()
	return u.String()
}

// codes are Discord's names of the errors of a webhook, by their codes.
var codes = map[int]string{
	10003: "Unknown Channel", 10015: "Unknown Webhook", 40005: "Request entity too large", 50006: "Cannot send an empty message",
	50027: "Invalid Webhook Token", 50035: "Invalid Form Body", 50083: "Thread is archived", 50109: "Invalid JSON",
	160005: "Thread is locked", 220001: "A forum's webhook needs thread_id", 220003: "Only a forum's webhook starts threads",
	240000: "Message blocked by harmful links filter",
}

// word returns the part of a refusal's answer that is shown.
func word(answer []byte) string {
	var reply struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		return ""
	}
	return codes[reply.Code]
}

// inBody returns the time to wait that the body of an answer gives.
var inBody = provider.WaitAt("retry_after")

// wait returns the time that Discord asks to wait, if the answer is 429.
func wait(status int, header http.Header, answer []byte) (time.Duration, bool) {
	wait, limited := inBody(status, header, answer)
	reset, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset-After"), 64)
	if err != nil {
		reset = 0
	}
	return max(wait, provider.Seconds(reset)), limited
}
