package bus

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/event"
)

// The first tokens of every subject. The next token is the shard where a stream is sharded.
const (
	prefixEvents    = "notifier.events."
	prefixDeliver   = "notifier.deliver."
	prefixRetry     = "notifier.retry."
	anyDelivery     = "notifier.*." // of DELIVERIES: due or on the schedule
	prefixTrigger   = "notifier.trigger."
	prefixDead      = "notifier.dead."
	prefixHistory   = "notifier.history."
	prefixWebhook   = "notifier.webhook."
	unknownToken    = "="
	historyLength   = 4 // tokens of notifier.history.<ns>.<provider>
	scheduledLength = 7 // tokens of notifier.deliver.<shard>.<ns>.<provider>.<object>.<order>-<id>, and of those of retry
	hexDigits       = "0123456789abcdef"
	escape          = '='
	anyToken        = "*"
	everythingElse  = ">"
)

// token makes s one subject token. Letters, digits, '-' and '_' are kept; any other byte (dots, wildcards, spaces, the escape itself)
// becomes '=' and two hex digits, and the empty string a single '='. So no two strings share a token, and untoken reverses it.
func token(s string) string {
	if s == "" {
		return unknownToken
	}
	return escapeBytes(s, plainByte)
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func escapeBytes(s string, plain func(byte) bool) string {
	first := 0
	for first < len(s) && plain(s[first]) {
		first++
	}
	if first == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*(len(s)-first))
	b.WriteString(s[:first])
	for i := first; i < len(s); i++ {
		if plain(s[i]) {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(escape)
		b.WriteByte(hexDigits[s[i]>>4])
		b.WriteByte(hexDigits[s[i]&15])
	}
	return b.String()
}

// untoken reverses token and keyToken.
func untoken(t string) (string, error) {
	if t == unknownToken {
		return "", nil
	}
	s, err := url.PathUnescape(strings.ReplaceAll(t, "=", "%"))
	if err != nil {
		return "", errors.New("token has a bad escape")
	}
	return s, nil
}

// keyToken is like token, for the keys of a bucket, where '/' is an ordinary character.
func keyToken(key string) string {
	return escapeBytes(key, func(c byte) bool { return plainByte(c) || c == '/' })
}

func eventSubject(o event.ObjectReference) string {
	return objectSubject(o.Namespace, o.Kind, o.Name)
}

func objectSubject(namespace, kind, name string) string {
	return prefixEvents + token(namespace) + "." + token(kind) + "." + token(name)
}

// appendTriggerSubject appends the subject of a trigger to b.
func appendTriggerSubject(b []byte, shard int, t *event.Trigger) []byte {
	b = append(strconv.AppendInt(append(b, prefixTrigger...), int64(shard), 10), '.')
	b = append(append(b, token(t.Namespace)...), '.')
	return append(b, token(t.Key)...)
}

// retrySubject returns the subject of a delivery on the schedule. It has everything that a new worker needs to keep the order of one
// object's deliveries, so that the worker reads no message for it.
func retrySubject(shard int, d *event.Delivery) string {
	return scheduledSubject(prefixRetry, shard, scheduledOf(d))
}

// dueSubject returns the subject to which the schedule publishes a delivery when its time has come. There is one subject for each delivery.
// The message may be behind its successors in the stream, and a new worker must know of it before it sends one of them (invariant E4).
func dueSubject(shard int, d *event.Delivery) string {
	return scheduledSubject(prefixDeliver, shard, scheduledOf(d))
}

func scheduledOf(d *event.Delivery) event.Scheduled {
	return event.Scheduled{
		ID: d.ID, Order: d.Order, Namespace: d.Namespace, Provider: d.Provider, ObjectKey: event.ObjectKey(d.Object()),
	}
}

func scheduledSubject(prefix string, shard int, p event.Scheduled) string {
	return fmt.Sprintf("%s%d.%s.%s.%s.%d-%s", prefix, shard, token(p.Namespace), token(p.Provider), p.ObjectKey, p.Order, token(p.ID))
}

// interned has one copy of the text of each token. There may be very many rescheduled deliveries of few Providers and objects, and a part of
// a subject would keep the server's whole answer in memory.
type interned map[string]string

// text returns what a token stands for.
func (s interned) text(part string) (string, error) {
	if same, known := s[part]; known {
		return same, nil
	}
	part = strings.Clone(part)
	text, err := untoken(part)
	if err == nil {
		s[part] = text
	}
	return text, err
}

// parseScheduledSubject reads a subject of scheduledSubject. Its parts that other subjects have as well are shared through the given
// strings.
func parseScheduledSubject(subject string, shared interned) (p event.Scheduled, err error) {
	var t [scheduledLength]string
	rest, more := subject, true
	for i := range t {
		if !more {
			return p, fmt.Errorf("subject of a rescheduled delivery has %d tokens", i)
		}
		t[i], rest, more = strings.Cut(rest, ".")
	}
	if more {
		return p, fmt.Errorf("subject of a rescheduled delivery has more than %d tokens", scheduledLength)
	}
	order, id, found := strings.Cut(t[6], "-")
	if !found {
		return p, errors.New("subject of a rescheduled delivery has no order")
	}
	var noID, noNamespace, noProvider, noKey error
	p.Due = strings.HasPrefix(subject, prefixDeliver)
	if p.Order, err = strconv.ParseUint(order, 10, 64); err != nil {
		return p, errors.New("subject of a rescheduled delivery has a bad order")
	}
	p.ID, noID = untoken(strings.Clone(id))
	p.Namespace, noNamespace = shared.text(t[3])
	p.Provider, noProvider = shared.text(t[4])
	p.ObjectKey, noKey = shared.text(t[5])
	if err := errors.Join(noID, noNamespace, noProvider, noKey); err != nil {
		return p, fmt.Errorf("subject of a rescheduled delivery: %w", err)
	}
	return p, nil
}

func deadSubject(namespace, provider string) string {
	return prefixDead + token(namespace) + "." + token(provider)
}

func historySubject(d *event.Delivery) string {
	return prefixHistory + token(d.Namespace) + "." + token(d.Provider)
}

func webhookSubject(namespace, receiver string) string {
	return prefixWebhook + token(namespace) + "." + token(receiver)
}

// withinNamespace returns the beginning of a subject of a stream with quotas, up to and including the token of its namespace.
func withinNamespace(subject string) string {
	end := strings.IndexByte(subject, '.') + 1
	end += strings.IndexByte(subject[end:], '.') + 1
	return subject[:end+strings.IndexByte(subject[end:], '.')]
}

// namespaceOf returns the namespace that a subject of any of the streams names, empty when it names none.
func namespaceOf(subject string) string {
	t := strings.Split(subject, ".")
	at := 3
	for _, unsharded := range []string{prefixEvents, prefixDead, prefixHistory, prefixWebhook} {
		if strings.HasPrefix(subject, unsharded) {
			at = 2
		}
	}
	if len(t) <= at {
		return ""
	}
	namespace, err := untoken(t[at])
	if err != nil {
		return ""
	}
	return namespace
}

// shardOf divides keys among n shards. Every replica and every release must agree on it.
func shardOf(n int, parts ...string) int {
	h := fnv.New32a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return int(h.Sum32() % uint32(n))
}
