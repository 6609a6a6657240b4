package registry

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/model/record"
)

// maxCassette is the maximum size of a cassette that a session contains.
const maxCassette = 1 << 20

func openFallback(s Setup) (model.Model, error) {
	if s.Ref.Model == "" {
		return nil, errors.New("which models? write fallback:NAME,NAME")
	}
	names, err := alternatives(s.Ref)
	if err != nil {
		return nil, err
	}
	data, err := unbundle(s.Data, len(names))
	if err != nil {
		return nil, err
	}
	models := make([]model.Model, len(names))
	for i, name := range names {
		if models[i], err = s.Open(name, data[i]); err != nil {
			return nil, err
		}
	}
	var cfg fallback.Config
	if on, given := s.Ref.Option("on"); given {
		for class := range strings.SplitSeq(on, ",") {
			cfg.On = append(cfg.On, content.ErrorClass(strings.TrimSpace(class)))
		}
	}
	return made(fallback.New(models, cfg))
}

// alternatives returns the names in the name of a fallback model.
func alternatives(ref Ref) ([]string, error) {
	names := strings.Split(ref.Model, ",")
	for i, escaped := range names {
		var err error
		if names[i], err = url.PathUnescape(escaped); err != nil {
			return nil, fmt.Errorf("name %d: %w", i+1, err)
		}
	}
	return names, nil
}

func openRecord(s Setup) (model.Model, error) {
	name, given := s.Ref.Option("model")
	switch {
	case s.Ref.Model == "" || !given:
		return nil, errors.New("write record:FILE?model=NAME")
	case s.Shared:
		return nil, errors.New("a session does not write files on a node: record in this process, without a server")
	case s.Data != nil:
		return nil, noData(s)
	}
	inner, err := s.Open(name, nil)
	if err != nil {
		return nil, err
	}
	return made(record.Open(s.file(), inner, record.Config{Secrets: s.registry.secrets()}))
}

func openReplay(s Setup) (model.Model, error) {
	match, _ := s.Ref.Option("match")
	cfg := record.Config{Secrets: s.registry.secrets(), Nearest: match == "nearest"}
	switch {
	case s.Ref.Model == "":
		return nil, errors.New("which cassette? write replay:FILE")
	case match != "" && match != "strict" && match != "nearest":
		return nil, fmt.Errorf("match=%s: use strict (a request that was not recorded fails) or nearest (it gets the reply to the most similar one)", match)
	case s.Data != nil:
		return made(record.Parse(s.Ref.Model, s.Data, cfg))
	case s.Shared:
		return nil, errors.New("the session was started without the cassette's content: a published agent has only its name. Start the session with --agent FILE or --model replay:FILE, which send the cassette")
	}
	m, err := record.Open(s.file(), nil, cfg)
	if err != nil {
		return nil, err
	}
	if size := len(m.Source()); size > maxCassette {
		return nil, fmt.Errorf("cassette %s: %d bytes, at most %d travel with a session", s.Ref.Model, size, maxCassette)
	}
	return m, nil
}
