package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/schema"
)

// Suite is a list of cases with their checks. The tags are the names of its fields in YAML.
type Suite struct {
	Name    string  `yaml:"name"`    // "": the name of the file
	Agent   string  `yaml:"agent"`   // an agent's file or name; the caller of Run puts it into Config, like
	Model   string  `yaml:"model"`   // this model and
	System  string  `yaml:"system"`  // this system prompt
	Judge   string  `yaml:"judge"`   // the default model of judges
	Repeats int     `yaml:"repeats"` // repeats of each case; 0: 1
	Checks  []Check `yaml:"checks"`  // of every case, besides its own
	Cases   []Case  `yaml:"cases"`

	Folder string `yaml:"-"` // names of files are relative to it
}

// Case is one thing to try. It has a Prompt, or a Journal.
type Case struct {
	Name    string  `yaml:"name"`
	Prompt  Prompts `yaml:"prompt"`   // one turn for each
	Fork    string  `yaml:"fork"`     // SESSION@SEQ: the prompt continues that session there
	Journal string  `yaml:"journal"`  // an exported file, or a session: its input runs again, with its recorded results
	Model   string  `yaml:"model"`    // instead of the suite's
	Replies string  `yaml:"cassette"` // a file: the model is the cassette, which answers like its most similar request

	Repeats  int     `yaml:"repeats"`   // 0: as the suite
	PassRate float64 `yaml:"pass_rate"` // the rate of repeats that must pass, more than 0 and up to 1; 0: all of them
	Checks   []Check `yaml:"checks"`
}

// Prompts is one input for each turn. In YAML, a single text is also allowed.
type Prompts []string

// UnmarshalYAML reads a text or a list of texts.
func (p *Prompts) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*p = Prompts{one}
		return nil
	}
	return decode((*[]string)(p))
}

// Check is one thing that must be true of a session. Exactly one field is set.
type Check struct {
	Calls       *Calls         `yaml:"calls"`        // the model makes such calls
	NoCalls     *Calls         `yaml:"no_calls"`     // it makes none
	Contains    string         `yaml:"contains"`     // the answer contains it, ignoring case
	NotContains string         `yaml:"not_contains"` // the answer does not contain it, ignoring case
	Matches     string         `yaml:"matches"`      // the answer matches a regular expression of package regexp
	Schema      map[string]any `yaml:"schema"`       // the answer is JSON that fits the JSON Schema
	MaxTokens   int64          `yaml:"max_tokens"`   // input and output tokens of the session
	MaxCost     float64        `yaml:"max_cost"`     // cost of the session, in the currency of its prices
	MaxRounds   int            `yaml:"max_rounds"`   // replies of the model
	Command     string         `yaml:"command"`      // a shell runs it and exits with 0; its stdin is the answer
	Judge       *Judge         `yaml:"judge"`        // another model says yes
}

// Calls selects calls that a model makes, whether or not they are allowed to run.
type Calls struct {
	Tool string         `yaml:"tool"` // name; * matches any characters
	With map[string]any `yaml:"with"` // arguments that the call must have; it may have others
	Min  int            `yaml:"min"`  // 0: 1 without Max, otherwise 0
	Max  int            `yaml:"max"`  // 0: any number
}

// Judge asks another model about the answer.
type Judge struct {
	Question string `yaml:"question"` // whose answer is yes if the check passes
	Model    string `yaml:"model"`    // "": the suite's
}

// Problem is what is wrong with a suite.
type Problem struct { //nolint:errname // it is one of several
	Path    string // of the value, as in $.cases[0].name
	Message string
}

// Error returns the path and the problem.
func (p Problem) Error() string {
	if p.Path == "$" {
		return p.Message
	}
	return strings.TrimPrefix(p.Path, "$.") + ": " + p.Message
}

// Check returns an error with a [Problem] for everything that is wrong with the suite.
func (s *Suite) Check() error {
	var c checker
	c.suite(s)
	return errors.Join(c...)
}

// checker collects problems.
type checker []error

func (c *checker) report(path, format string, args ...any) {
	*c = append(*c, Problem{path, fmt.Sprintf(format, args...)})
}

func (c *checker) suite(s *Suite) {
	if len(s.Cases) == 0 {
		c.report("$", "there are no cases: write cases: [{name: …, prompt: …, checks: […]}]")
	}
	if s.Agent != "" && s.System != "" {
		c.report("$.system", "the agent has its own prompt: leave out agent or system")
	}
	c.count("$.repeats", s.Repeats)
	c.checks(s, "$.checks", s.Checks)
	seen := map[string]int{}
	for i, k := range s.Cases {
		path := fmt.Sprintf("$.cases[%d]", i)
		first, twice := seen[k.Name]
		switch {
		case strings.TrimSpace(k.Name) == "":
			c.report(path, "the case has no name: write name: refund-twice")
		case twice:
			c.report(path+".name", "case %d has the name %q, too: results are compared by name, so give each its own", first+1, k.Name)
		}
		seen[k.Name] = i
		c.one(s, path, k)
	}
}

func (c *checker) one(s *Suite, path string, k Case) {
	switch {
	case k.Journal == "" && len(k.Prompt) == 0:
		c.report(path, "the case has nothing to run: give a prompt or a journal")
	case k.Journal != "" && (len(k.Prompt) > 0 || k.Fork != ""):
		c.report(path+".journal", "a journal has its own input: leave out prompt and fork, or continue its session with fork: SESSION@SEQ")
	case k.Model != "" && k.Replies != "":
		c.report(path+".cassette", "a cassette is the model of its case: leave out model")
	}
	if k.Fork != "" {
		if _, err := events.ParseEntryRef(k.Fork); err != nil {
			c.report(path+".fork", "%v: write SESSION@SEQ; \"observer events SESSION\" lists the entries", err)
		}
	}
	for i, p := range k.Prompt {
		if strings.TrimSpace(p) == "" {
			c.report(path+".prompt", "input %d is empty", i+1)
		}
	}
	if IsFile(k.Journal) {
		c.file(s, path+".journal", k.Journal, "observer export SESSION")
	} else if _, err := content.ParseSessionID(k.Journal); k.Journal != "" && err != nil {
		c.report(path+".journal", "%v, or the name of an exported file, as in ./incident.jsonl", err)
	}
	if k.Replies != "" {
		c.file(s, path+".cassette", k.Replies, "turnlog cassette SESSION")
	}
	c.count(path+".repeats", k.Repeats)
	if math.IsNaN(k.PassRate) || k.PassRate < 0 || k.PassRate > 1 {
		c.report(path+".pass_rate", "%v: use a part of 1, as in 0.9", k.PassRate)
	}
	if len(k.Checks)+len(s.Checks) == 0 {
		c.report(path, "nothing is checked: write checks: [contains: …]")
	}
	c.checks(s, path+".checks", k.Checks)
}

func (c *checker) file(s *Suite, path, name, from string) {
	if info, err := os.Stat(s.in(name)); err != nil || !info.Mode().IsRegular() {
		c.report(path, "there is no file %s: \"%s\" prints one, and its name is relative to the suite's folder", s.in(name), from)
	}
}

// maxRepeats limits the damage of a typing error.
const maxRepeats = 1000

func (c *checker) count(path string, n int) {
	if n < 0 || n > maxRepeats {
		c.report(path, "%d: use a number from 1 to %d", n, maxRepeats)
	}
}

func (c *checker) checks(s *Suite, path string, all []Check) {
	for i, k := range all {
		path := fmt.Sprintf("%s[%d]", path, i)
		switch kinds, _ := k.kinds(); len(kinds) {
		case 0:
			c.report(path, "it checks nothing: use one of %s", strings.Join(checkNames(), ", "))
		case 1:
			c.check(s, path+"."+kinds[0], k)
		default:
			c.report(path+"."+kinds[1], "a check has one kind, and this one has %s: begin each with its own -", strings.Join(kinds, " and "))
		}
	}
}

func (c *checker) check(s *Suite, path string, k Check) {
	if calls := cmp.Or(k.Calls, k.NoCalls); calls != nil {
		if _, err := json.Marshal(calls.With); err != nil {
			c.report(path, "with: %v", err)
		}
		switch {
		case calls.Tool == "":
			c.report(path, "it names no tool: write {tool: refund}, in which * matches any characters")
		case calls.Min < 0 || calls.Max < 0 || calls.Max > 0 && calls.Max < calls.Min:
			c.report(path, "min %d and max %d: use numbers from 1, and max no less than min", calls.Min, calls.Max)
		case k.NoCalls != nil && calls.Min+calls.Max > 0:
			c.report(path, "no_calls has no min and max: use calls")
		}
	}
	if _, err := regexp.Compile(k.Matches); err != nil {
		c.report(path, "%v: use the syntax of Go's package regexp", err)
	}
	if k.Schema != nil {
		if _, err := compile(k.Schema); err != nil {
			c.report(path, "not a JSON Schema: %v", err)
		}
	}
	if k.MaxTokens < 0 || k.MaxRounds < 0 || k.MaxCost < 0 || math.IsInf(k.MaxCost, 0) || math.IsNaN(k.MaxCost) {
		c.report(path, "use a number above 0")
	}
	if j := k.Judge; j != nil {
		if j.Question == "" {
			c.report(path, "it asks nothing: write question: Is the answer polite?")
		}
		if j.Model == "" && s.Judge == "" {
			c.report(path, "it names no model: write judge: MODEL for the suite, or model: MODEL here")
		}
	}
}

func compile(s map[string]any) (*schema.Schema, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return schema.Compile(raw)
}

// in returns the path of a file that the suite names.
func (s *Suite) in(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.Folder, name)
}

// IsFile reports whether a journal is an exported file. The ID of a session has none of these characters.
func IsFile(journal string) bool { return strings.ContainsAny(journal, `./\`) }
