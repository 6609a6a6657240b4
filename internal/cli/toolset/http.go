package toolset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/internal/egress"
	"github.com/turnlog/turnlog/tool/httptool"
)

type httpFlags struct {
	services []string // NAME=URL
	headers  []string // NAME=HEADER=REFERENCE
	private  []string
}

func (f *httpFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.services, "http-tool", nil, "HTTP endpoint that is a tool, as `NAME=URL` of its manifest or OpenAPI document; repeatable")
	fs.StringArrayVar(&f.headers, "http-tool-header", nil, "header of requests to an HTTP tool, as `NAME=HEADER=env:VARIABLE` or NAME=HEADER=file:PATH; repeatable")
	fs.StringArrayVar(&f.private, "http-tool-private", nil, "private `addresses`, such as 10.1.0.0/16, that hosts of HTTP tools may have; an address in a tool's URL needs no flag; repeatable")
}

func (f *httpFlags) parse() (services []httptool.Service, private []netip.Prefix, err error) {
	for _, text := range f.services {
		s, err := httptool.Parse(text)
		if err != nil {
			return nil, nil, fmt.Errorf("--http-tool %w", err)
		}
		services = append(services, s)
	}
	for _, text := range f.headers {
		name, value, _ := strings.Cut(text, "=")
		header, reference, ok := strings.Cut(value, "=")
		i := slices.IndexFunc(services, func(s httptool.Service) bool { return s.Name == name })
		switch {
		case !ok || header == "":
			return nil, nil, fmt.Errorf("--http-tool-header %q: write the tool's name, =, the header, = and a reference, env:VARIABLE or file:PATH", name)
		case i < 0:
			return nil, nil, fmt.Errorf("--http-tool-header %s: no --http-tool has that name", name)
		}
		if services[i].Headers == nil {
			services[i].Headers = make(map[string]string)
		}
		services[i].Headers[header] = reference
	}
	for _, text := range f.private {
		p, err := egress.ParsePrefix(text)
		if err != nil {
			return nil, nil, fmt.Errorf("--http-tool-private %w", err)
		}
		private = append(private, p)
	}
	return services, private, nil
}
