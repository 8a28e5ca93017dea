package events

import "notifier/internal/receiver/receivertest"

var (
	do     = receivertest.Do
	bodyOf = receivertest.BodyOf
)
