package embedded

import (
	"crypto/subtle"

	"github.com/nats-io/nats-server/v2/server"
)

// oneUser lets in one name and password. The server has that too, but warns that
// the password it was given is readable, which is for configuration files.
type oneUser struct{ name, pass string }

// Check implements the server's authentication.
func (u oneUser) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	name := subtle.ConstantTimeCompare([]byte(o.Username), []byte(u.name))
	pass := subtle.ConstantTimeCompare([]byte(o.Password), []byte(u.pass))
	return name&pass == 1
}
