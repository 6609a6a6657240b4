package openai

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// ID identifies a response: a part of a turn of a session.
type ID struct {
	Session content.SessionID
	Turn    int // counted from 1
	Part    int // counted from 1
}

const (
	responsePrefix     = "resp_"
	conversationPrefix = "conv_"
)

// ErrBadID is returned for a text that does not name a response or a conversation.
var ErrBadID = errors.New("not an ID of this gateway")

// String returns the ID as one word.
func (id ID) String() string {
	s := responsePrefix + string(id.Session) + "." + strconv.Itoa(id.Turn)
	if id.Part > 1 {
		s += "." + strconv.Itoa(id.Part)
	}
	return s
}

// ParseID parses the result of String.
func ParseID(text string) (id ID, err error) {
	rest, ok := strings.CutPrefix(text, responsePrefix)
	words := strings.Split(rest, ".")
	if id.Session, err = content.ParseSessionID(words[0]); !ok || err != nil || len(words) < 2 || len(words) > 3 {
		return ID{}, fmt.Errorf("%w: %q", ErrBadID, text)
	}
	id.Turn, _ = strconv.Atoi(words[1])
	id.Part = 1
	if len(words) == 3 {
		id.Part, _ = strconv.Atoi(words[2])
	}
	if id.Turn < 1 || id.Part < 1 || id.String() != text {
		return ID{}, fmt.Errorf("%w: %q", ErrBadID, text)
	}
	return id, nil
}

// Conversation returns the ID of a session as a conversation.
func Conversation(s content.SessionID) string { return conversationPrefix + string(s) }

// ParseConversation returns the session of a conversation.
func ParseConversation(text string) (content.SessionID, error) {
	rest, ok := strings.CutPrefix(text, conversationPrefix)
	id, err := content.ParseSessionID(rest)
	if !ok || err != nil {
		return "", fmt.Errorf("%w: %q", ErrBadID, text)
	}
	return id, nil
}
