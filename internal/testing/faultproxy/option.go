package faultproxy

import (
	"net"

	"github.com/nats-io/nats.go"
)

// Option makes a client connect through the proxy, in this process or over TCP.
func (p *Proxy) Option() nats.Option {
	return func(o *nats.Options) error {
		switch {
		case o.InProcessServer != nil:
			o.InProcessServer = behind{p, o.InProcessServer, nil}
		case o.CustomDialer != nil:
			o.CustomDialer = behind{p, nil, o.CustomDialer}
		default:
			o.CustomDialer = p
		}
		return nil
	}
}

// behind are servers behind a proxy.
type behind struct {
	proxy  *Proxy
	server nats.InProcessConnProvider // nil: they have addresses
	dialer nats.CustomDialer
}

// InProcessConn connects to the server in this process.
func (b behind) InProcessConn() (net.Conn, error) { return b.proxy.Join(b.server.InProcessConn) }

// Dial connects to the server with an address.
func (b behind) Dial(network, address string) (net.Conn, error) {
	return b.proxy.Join(func() (net.Conn, error) { return b.dialer.Dial(network, address) })
}
