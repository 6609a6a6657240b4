package jetstream

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Replies go wherever a request says, whatever its sender may publish on, and the server
// stores them like other messages. Who may store something and read it directly can so
// put it on any subject of the cell. But such a reply says where it was read, and no
// message of a cell says that by itself: it is passed over.

// errAimed says that nobody who may write there published a message.
var errAimed = errors.New("the message is the server's reply to somebody who aimed it there")

// isAimed reports whether a message, as its sender sent it, is such a reply.
func isAimed(h nats.Header) bool { return len(h[jetstream.StreamHeader]) > 0 }

// isAimedCopy is isAimed for a message that the server has described once more.
func isAimedCopy(h nats.Header) bool { return len(h[jetstream.StreamHeader]) > 1 }

// saidByServer returns what the server says about a message in a header. A sender may
// have set it, too; the server's own comes behind.
func saidByServer(h nats.Header, key string) string {
	if all := h[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}
