package toolset

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/output"
)

// settings are the flags that configure individual sets.
type settings struct {
	readFirst bool

	shells     int
	passEnv    []string
	sandbox    string
	sandboxNet bool
	box, why   string // the sandbox, and why there is none

	fetchAllow, fetchMethods, fetchPrivate []string

	manifests   []string
	outputLimit int
}

func (k *settings) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&k.readFirst, "read-before-write", false, "let file tools change an existing file only in the version that they have read")
	fs.IntVar(&k.shells, "keep-shells", 0, "`number` of shells that keep their directory and variables between calls; 0: none")
	fs.StringArrayVar(&k.passEnv, "pass-env", nil, "`NAME` or NAME=value of a variable to pass to commands; repeatable")
	fs.StringVar(&k.sandbox, "sandbox", sandbox.None, "what commands run in: "+strings.Join(sandbox.Kinds(), ", ")+"; auto is bwrap if it works here; gates run outside")
	fs.BoolVar(&k.sandboxNet, "sandbox-network", false, "allow the network in the sandbox")
	fs.StringArrayVar(&k.fetchAllow, "fetch-allow", nil, "`host` that http_fetch may read from, such as example.com, *.example.com, example.com:8080, or * for any; repeatable")
	fs.StringArrayVar(&k.fetchMethods, "fetch-method", nil, "`method` that http_fetch may use; default: GET and HEAD; repeatable")
	fs.StringArrayVar(&k.fetchPrivate, "fetch-private", nil, "`addresses`, such as 10.1.0.0/16, that http_fetch may reach although they are private; repeatable")
	fs.StringArrayVar(&k.manifests, "tool-manifest", nil, "manifest `file` that turns an executable into a tool, or a folder of manifests; repeatable")
	fs.IntVar(&k.outputLimit, "output-limit", 0, "`bytes` of output in a result; longer output is stored and read in pieces with output_read; 0: cut it at 1 MiB")
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions(sandbox.Kinds(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	about(fs, "fs", "read-before-write")
	about(fs, "shell", "keep-shells")
	about(fs, "fetch", "fetch-allow", "fetch-method", "fetch-private")
	about(fs, commands, "pass-env", "sandbox", "sandbox-network")
}

// check checks the values of the flags, given the chosen sets.
func (k *settings) check(sets []string) error {
	switch {
	case k.shells < 0:
		return fmt.Errorf("--keep-shells %d: use a positive number, or 0 for none", k.shells)
	case k.outputLimit < 0:
		return fmt.Errorf("--output-limit %d: use a positive number, or 0", k.outputLimit)
	case slices.Contains(sets, "fetch") && len(k.fetchAllow) == 0:
		return errors.New("--tools fetch: name the allowed hosts with --fetch-allow, or * for any")
	}
	return nil
}

// options sets the options from the flags.
func (k *settings) options(ctx context.Context, o *Options) error {
	o.ReadFirst, o.Shells, o.Network = k.readFirst, k.shells, k.sandboxNet
	var err error
	if o.Env, err = hostenv.Pass(k.passEnv); err != nil {
		return fmt.Errorf("--pass-env: %w", err)
	}
	box, why, err := sandbox.Open(ctx, k.sandbox, sandbox.Options{Network: k.sandboxNet})
	if err != nil {
		return fmt.Errorf("--sandbox: %w", err)
	}
	k.box, k.why = box.Name(), why
	o.Sandbox = k.box
	o.Fetch.Hosts, o.Fetch.Methods = k.fetchAllow, k.fetchMethods
	for _, text := range k.fetchPrivate {
		p, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("--fetch-private %q: write an address or a range such as 10.1.0.0/16", text)
		}
		o.Fetch.Private = append(o.Fetch.Private, p)
	}
	return nil
}

// manifestTools opens the tools of the manifests. It returns nil if there are none.
func (k *settings) manifestTools(o Options, others []tool.Source) (tool.Source, error) {
	var tools []tool.Tool
	for _, name := range k.manifests {
		more, err := exec.Load(o.Root, name, exec.Options{Env: o.Env, Sandbox: o.Sandbox, Network: o.Network})
		if err != nil {
			return nil, fmt.Errorf("--tool-manifest: %w", err)
		}
		tools = append(tools, more...)
	}
	if len(tools) == 0 {
		return nil, nil //nolint:nilnil // no manifests, no source
	}
	source, err := tool.NewRegistry("manifests", tools...)
	if err != nil {
		return nil, fmt.Errorf("--tool-manifest: %w", err)
	}
	_, err = tool.Sample(context.Background(), append(slices.Clone(others), source), tool.ErrorOnCollision)
	if e, ok := errors.AsType[*tool.CollisionError](err); ok {
		return nil, fmt.Errorf("--tool-manifest: %w", e)
	}
	return source, nil
}

// Sandbox returns what commands run in, after Start. With --sandbox auto, why is the
// reason if that is no sandbox.
func (f *Flags) Sandbox() (name, why string) { return f.settings.box, f.settings.why }

// SandboxNote returns a line about what --sandbox auto chose, or "" without auto.
func (f *Flags) SandboxNote() string {
	switch {
	case f.settings.sandbox != sandbox.Auto:
		return ""
	case f.settings.why != "":
		return "commands run without a sandbox: " + f.settings.why
	}
	return "commands run in a sandbox: " + f.settings.box
}

// keep wraps the sources so that long outputs go to the store, and adds the tool that
// reads them, if the flags ask for it.
func (f *Flags) keep(sources []tool.Source, store output.Store) ([]tool.Source, error) {
	if f.settings.outputLimit == 0 {
		return sources, nil
	}
	reader, err := output.NewReader(store)
	if err != nil {
		return nil, fmt.Errorf("store outputs: %w", err)
	}
	registry, err := tool.NewRegistry("output", reader)
	if err != nil {
		return nil, fmt.Errorf("store outputs: %w", err)
	}
	keep := output.Keep(store, output.Options{Limit: f.settings.outputLimit})
	out := make([]tool.Source, 0, len(sources)+1)
	for _, s := range sources {
		if s.Name() != gateSet { // the model does not read the output of a verifier
			s = tool.WrapSource(s, keep)
		}
		out = append(out, s)
	}
	return append(out, registry), nil
}
