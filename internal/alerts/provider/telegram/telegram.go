package telegram

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"notifier/internal/alerts/provider"
)

const host = "https://api.telegram.org"

// New returns a Sender to one chat, which posts a notification as one message. Token and channel are required.
func New(cfg provider.Config) (*provider.Client, error) { return newSender(cfg, host) }

var (
	tokenForm = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)
	chatForm  = regexp.MustCompile(`^(-?[0-9]{1,19}|@[A-Za-z0-9_]+)$`)
)

// newSender returns a Sender to the Bot API at base.
func newSender(cfg provider.Config, base string) (*provider.Client, error) {
	if err := provider.CheckKey("token", cfg.Token); err != nil {
		return nil, err
	}
	if !tokenForm.MatchString(cfg.Token) {
		return nil, errors.New("the Secret's key token is no token of a Telegram bot: digits, a colon, and letters and digits")
	}
	chat, topic, topics := strings.Cut(cfg.Channel, ":")
	if !chatForm.MatchString(chat) {
		return nil, errors.New("spec.channel is no chat: its number or @name, with :topic behind it if the chat has topics")
	}
	var thread int64
	var err error
	if topics {
		if thread, err = strconv.ParseInt(topic, 10, 64); err != nil || thread <= 0 {
			return nil, errors.New("spec.channel has no number of a topic behind the colon")
		}
	}
	token := cfg.Token
	cfg.Address = base
	return provider.NewClient(cfg, provider.ClientOptions{
		Word: word, Wait: wait, Limit: func(string) provider.Limit { return limitOf(chat) },
		Message: func(c *provider.Client, n provider.Notification) (provider.Request, error) {
			m := newMessage(n)
			m.ChatID, m.MessageThreadID = chat, thread
			return provider.Request{URL: c.URL("bot"+token, "sendMessage"), JSON: m}, nil
		},
	})
}

// limitOf returns Telegram's limit for a chat: 20 messages a minute for a group or channel, one a second for a person.
func limitOf(chat string) provider.Limit {
	if strings.HasPrefix(chat, "-") || strings.HasPrefix(chat, "@") {
		return provider.Limit{Rate: 1.0 / 3, Burst: 3}
	}
	return provider.Limit{Rate: 1, Burst: 3}
}

// word returns the part of a refusal's answer that is shown: a known description of the Bot API.
var word = provider.WordAt("description",
	"Bad Request: chat not found", "Bad Request: group chat was upgraded to a supergroup chat", "Bad Request: message is too long",
	"Bad Request: message text is empty", "Bad Request: message thread not found",
	"Bad Request: need administrator rights in the channel chat",
	"Bad Request: not enough rights to send text messages to the chat", "Bad Request: TOPIC_CLOSED", "Bad Request: TOPIC_DELETED",
	"Forbidden: bot can't initiate conversation with a user", "Forbidden: bot is not a member of the channel chat",
	"Forbidden: bot is not a member of the supergroup chat", "Forbidden: bot was blocked by the user",
	"Forbidden: bot was kicked from the channel chat", "Forbidden: bot was kicked from the group chat",
	"Forbidden: bot was kicked from the supergroup chat", "Forbidden: user is deactivated", "Not Found", "Unauthorized",
)

// wait returns the time that Telegram asks to wait.
var wait = provider.WaitAt("parameters.retry_after")
