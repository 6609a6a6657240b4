package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"go.uber.org/zap"
)

// probe listens on a for a moment. The server would only log why it cannot listen.
func probe(ctx context.Context, a address) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.String())
	if err != nil {
		return cannotListen(a, err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("listen on %s: %w", a, err)
	}
	return nil
}

func cannotListen(a address, err error) error {
	cause := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		cause = op.Err
	}
	for _, known := range []struct {
		errno syscall.Errno
		hint  string
	}{
		{syscall.EADDRINUSE, "stop the program that listens there, or choose another port (0 takes any free port)"},
		{syscall.EACCES, "this user may not use that port: choose one above 1023"},
		{syscall.EADDRNOTAVAIL, "this machine has no such address: use 127.0.0.1 or another of its addresses"},
	} {
		if errors.Is(err, known.errno) {
			return fmt.Errorf("listen on %s: %w: %s", a, known.errno, known.hint)
		}
	}
	return fmt.Errorf("listen on %s: %w: use a host and port of this machine, like 127.0.0.1:4222", a, cause)
}

// warnIfOpen warns if every host on the network may read and write everything.
func warnIfOpen(cfg config) {
	if cfg.listen == nil || cfg.guarded || cfg.user+cfg.token != "" {
		return
	}
	if ip := net.ParseIP(cfg.listen.host); cfg.listen.host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return
	}
	cfg.log.Warn("listener is open to the network without authentication", zap.Stringer("address", cfg.listen))
}
