package egress_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/turnlog/turnlog/internal/egress"
)

func TestOnlyPublicAndNamedAddressesMayBeDialed(t *testing.T) {
	t.Parallel()
	var private []netip.Prefix
	for _, text := range []string{"10.1.0.0/16", "::1"} {
		p, err := egress.ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		private = append(private, p)
	}
	for address, may := range map[string]bool{
		"8.8.8.8:443": true, "[2606:4700::1]:443": true, "10.1.2.3:80": true, "[::1]:80": true, "[::ffff:10.1.2.3]:80": true,
		"10.2.0.1:80": false, "127.0.0.1:80": false, "[::ffff:127.0.0.1]:80": false, "169.254.169.254:80": false, "[fe80::1%eth0]:80": false,
		"0.0.0.0:80": false, "[64:ff9b::7f00:1]:80": false,
	} {
		if err := egress.Check(address, private); (err == nil) != may || err != nil && !errors.Is(err, egress.ErrPrivate) {
			t.Errorf("Check(%s) = %v, want it allowed: %t", address, err, may)
		}
	}
	if err := egress.Check("example.com:80", private); err == nil {
		t.Error("a name passed")
	}
	if _, err := egress.ParsePrefix("10.1"); err == nil {
		t.Error("ParsePrefix(10.1) returned no error")
	}
}
