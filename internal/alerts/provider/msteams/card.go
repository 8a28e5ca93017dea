package msteams

// The parts of the two kinds of card that are used here, in the names of Microsoft's schemas.

type messageCard struct {
	Type       string    `json:"@type"`
	Context    string    `json:"@context"`
	ThemeColor string    `json:"themeColor"`
	Summary    string    `json:"summary"`
	Sections   []section `json:"sections"`
}

type section struct {
	ActivityTitle    string              `json:"activityTitle"`
	ActivitySubtitle string              `json:"activitySubtitle"`
	Facts            []map[string]string `json:"facts"`
}

type workflowMessage struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string       `json:"contentType"`
	Content     adaptiveCard `json:"content"`
}

type adaptiveCard struct {
	Schema  string            `json:"$schema"`
	Type    string            `json:"type"`
	Version string            `json:"version"`
	MSTeams map[string]string `json:"msteams"`
	Body    []container       `json:"body"`
}

type container struct {
	Type  string `json:"type"`
	Items []any  `json:"items"`
}

type textBlock struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Size   string `json:"size,omitempty"`
	Weight string `json:"weight,omitempty"`
	Color  string `json:"color,omitempty"`
	Wrap   bool   `json:"wrap"`
}

type factSet struct {
	Type  string              `json:"type"`
	Facts []map[string]string `json:"facts"`
}
