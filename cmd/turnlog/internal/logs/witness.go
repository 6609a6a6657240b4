package logs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/witness"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/settings"
)

// Witness returns the command that cosigns checkpoints.
func Witness(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Cosign the checkpoints of append-only logs",
		Long: `Serves the witness protocol of C2SP (tlog-witness) for the logs of the given keys. It cosigns a checkpoint only
with a proof that the log is an extension of the last checkpoint that it cosigned. It answers 422 for a log that
was rewritten, and 409 for one that was rolled back.

The --state directory has the last checkpoint of each log, in a file. Do not lose it: without it, the witness would
cosign a different history. A witness needs no NATS server, and no secret of the log.`,
		Example: `  turnlog witness --sign-key witness.nk --name w1.example --log example.com/log+5b3c7d1e+AYz… --state /var/lib/witness`,
	}
	logs := cli.NewLog(cmd, zapcore.InfoLevel)
	settings.Lasts(cmd)
	i := newIdentity(cmd)
	listen := cmd.Flags().String("listen", "127.0.0.1:7380", "serve at this `address`, without TLS: put a proxy in front of it")
	state := cmd.Flags().String("state", "", "`directory` with the last checkpoint of each log")
	known := cmd.Flags().StringArray("log", nil, "verifier `KEY` of a log; repeat it for several")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log := logs.Logger(a.Err, a.Getenv).Named("witness")
		by, w, err := i.witness(*state, *known)
		if err != nil {
			return err
		}
		defer func() { _ = w.Close() }() // it only frees the directory
		for _, err := range w.Broken() {
			log.Error("a log gets no cosignatures", zap.Error(err))
		}
		return a.UntilInterrupted(cmd.Context(), func(ctx context.Context) error {
			var lc net.ListenConfig
			l, err := lc.Listen(ctx, "tcp", *listen)
			if err != nil {
				return fmt.Errorf("--listen %s: %w: use a free address of this machine, like 127.0.0.1:7380", *listen, err)
			}
			if _, err := fmt.Fprintf(a.Out, "http://%s/=%s\n", l.Addr(), by.Key()); err != nil {
				return errors.Join(err, l.Close())
			}
			return serve(ctx, l, w.Handler(log), log)
		})
	}
	cmd.AddCommand(keyCommand(a, "a witness", "witness", func(key string) (string, error) {
		by, err := headlog.NewCosigner(key, nil, time.Now)
		if err != nil {
			return "", err
		}
		return by.Key(), nil
	}))
	return cmd
}

// witness opens a witness of the logs with these keys.
func (i *identity) witness(dir string, logs []string) (*headlog.Cosigner, *witness.Witness, error) {
	s, key, _, err := i.read()
	if err != nil {
		return nil, nil, err
	}
	if dir == "" || len(logs) == 0 {
		return nil, nil, cli.Usage("give --state DIRECTORY, and --log KEY, as \"turnlog notary key\" prints it")
	}
	by, err := headlog.NewCosigner(key, func(text []byte) []byte { return s.Sign(text).Bytes }, time.Now)
	if err != nil {
		return nil, nil, err
	}
	var known []note.Verifier
	for _, l := range logs {
		v, err := headlog.ParseLogKey(l)
		if err != nil {
			return nil, nil, cli.Usage("--log: %w", err)
		}
		known = append(known, v)
	}
	w, err := witness.Open(dir, by, known)
	return by, w, err
}

const (
	requestTimeout  = 10 * time.Second
	shutdownTimeout = time.Second
)

// serve serves until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *zap.Logger) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, ErrorLog: zap.NewStdLog(log),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(last); err != nil {
		log.Warn("requests cut off", zap.Error(errors.Join(err, srv.Close())))
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return context.Cause(ctx)
}
