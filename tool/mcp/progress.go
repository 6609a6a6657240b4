package mcp

import (
	"fmt"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// listeners are the calls under way, by their progress tokens.
type listeners struct {
	mu    sync.Mutex
	last  uint64
	calls map[string]func(text string, share float64)
}

// begin returns the token of a call; end forgets it.
func (l *listeners) begin(told func(string, float64)) (token string, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	token = "call-" + strconv.FormatUint(l.last, 10)
	if l.calls == nil {
		l.calls = make(map[string]func(string, float64))
	}
	if told != nil {
		l.calls[token] = told
	}
	return token, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, token)
	}
}

// tell passes on what a server says of a call.
func (l *listeners) tell(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	told := l.calls[token]
	l.mu.Unlock()
	if told == nil {
		return
	}
	text, share := p.Message, 0.0
	if p.Total > 0 {
		share = p.Progress / p.Total
	}
	switch {
	case text != "":
	case p.Total > 0:
		text = fmt.Sprintf("%g of %g", p.Progress, p.Total)
	default:
		text = fmt.Sprintf("%g", p.Progress)
	}
	told(text, share)
}
