package fetch_test

import (
	"net"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// answerAll is a name server: of each name it knows one IPv4 address.
func answerAll(conn net.PacketConn, table map[string]string) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return // the test is over
		}
		if reply, err := answer(buffer[:n], table); err == nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

func answer(query []byte, table map[string]string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		address, ok := table[q.Name.String()]
		if !ok || q.Type != dnsmessage.TypeA {
			continue
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
		})
	}
	return m.Pack()
}
