package natsservice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"
	"golang.org/x/mod/semver"

	"github.com/turnlog/turnlog/internal/schema"
	"github.com/turnlog/turnlog/internal/toolname"
	"github.com/turnlog/turnlog/tool"
)

// offer is what a service offers.
type offer struct {
	info  micro.Info // of the instance that counts
	tools []tool.Tool
}

// The limits of services' descriptions.
const (
	firstAnswer = 5 * time.Second
	nextAnswers = 200 * time.Millisecond // since the last one
	maxAnswers  = 1000
	maxSpecs    = 256 << 10 // bytes of all descriptions and schemas
)

var errNoInstance = errors.New("no instance of the service answers")

// Subject returns the subject on which instances of a service say what they offer.
func Subject(name string) string { return micro.APIPrefix + "." + micro.InfoVerb.String() + "." + name }

// ask asks all instances of the service what they offer.
func (s *service) ask(ctx context.Context, last offer) (offer, error) {
	now, err := s.newest(ctx)
	if err != nil {
		return offer{}, err
	}
	if !reflect.DeepEqual(now.Endpoints, last.info.Endpoints) || last.tools == nil {
		return offer{info: *now, tools: s.compile(now.Endpoints)}, nil
	}
	return last, nil
}

// newest returns the answer of the instance with the newest version. Among several of them it is always the same one.
func (s *service) newest(ctx context.Context) (*micro.Info, error) {
	inbox, err := listen(s.all.Conn)
	if err != nil {
		return nil, fmt.Errorf("ask for it: %w", err)
	}
	defer inbox.close()
	if err := s.all.Conn.PublishRequest(Subject(s.name), inbox.sub.Subject, nil); err != nil {
		return nil, fmt.Errorf("ask for it: %w", err)
	}
	var best *micro.Info // only one: an answer may be large
	wait := firstAnswer
	for range maxAnswers {
		m, err := inbox.next(ctx, wait)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return nil, errNoInstance
		case errors.Is(err, context.DeadlineExceeded) && best != nil:
			return best, nil
		case errors.Is(err, context.DeadlineExceeded):
			return nil, errNoInstance
		case err != nil:
			return nil, fmt.Errorf("ask for it: %w", err)
		}
		wait = nextAnswers
		var i micro.Info
		if schema.CheckJSON(m.Data) == nil && json.Unmarshal(m.Data, &i) == nil && i.Name == s.name && (best == nil || newer(i, *best)) {
			best = &i
		}
	}
	if best == nil {
		return nil, errNoInstance
	}
	return best, nil
}

// newer reports whether an instance counts before another one.
func newer(a, b micro.Info) bool {
	return cmp.Or(semver.Compare("v"+b.Version, "v"+a.Version), strings.Compare(a.ID, b.ID)) < 0
}

// The metadata keys of an endpoint. They match the fields of tool.Description.
const (
	metaInput       = "input" // without it, an endpoint is not a tool
	metaDescription = "description"
	metaOutput      = "output_schema"
	metaEffects     = "effects"
	metaExclusive   = "exclusive"
	metaTimeout     = "timeout"
)

// compile turns endpoints into tools. It omits those that cannot be used.
func (s *service) compile(endpoints []micro.EndpointInfo) []tool.Tool {
	endpoints = slices.DeleteFunc(slices.Clone(endpoints), func(e micro.EndpointInfo) bool { return e.Metadata[metaInput] == "" })
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.Name
	}
	tools, room := []tool.Tool{}, maxSpecs
	for i, name := range toolname.All(s.name+"_", names, len(names)) {
		t, size, err := s.tool(name, endpoints[i])
		if err == nil && size > room {
			err = fmt.Errorf("its %d bytes of description exceed the limit", size)
		}
		if err == nil && slices.ContainsFunc(tools, func(x tool.Tool) bool { return x.Spec().Name == name }) {
			err = errors.New("another endpoint has the same name")
		}
		if err != nil {
			s.log.Warn("endpoint of a NATS service omitted", zap.String("endpoint", names[i]), zap.Error(err))
			continue
		}
		room -= size
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b tool.Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return tools
}

// tool returns the tool of an endpoint, and the size of its description.
func (s *service) tool(name string, e micro.EndpointInfo) (t tool.Tool, size int, err error) {
	if !strings.HasPrefix(e.Subject, s.name+".") || strings.ContainsAny(e.Subject, "*> \t") || e.Subject == s.cancelSubject() {
		return nil, 0, fmt.Errorf("its subject %q does not begin with %q", e.Subject, s.name+".")
	}
	d := tool.Description{
		Description: e.Metadata[metaDescription], Input: json.RawMessage(e.Metadata[metaInput]), OutputSchema: json.RawMessage(e.Metadata[metaOutput]),
		Effects: e.Metadata[metaEffects], Timeout: e.Metadata[metaTimeout],
	}
	if text := e.Metadata[metaExclusive]; text != "" {
		if d.Exclusive, err = strconv.ParseBool(text); err != nil {
			return nil, 0, fmt.Errorf("exclusive: %q: use true or false", text)
		}
	}
	x := &endpoint{service: s, subject: e.Subject}
	if x.spec, err = d.Spec(name, s.all.Timeout); err != nil {
		return nil, 0, err
	}
	size = len(name) + len(d.Description) + len(d.Input) + len(d.OutputSchema)
	t, err = tool.Compile(x)
	return t, size, err
}
