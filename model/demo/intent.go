package demo

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// verb says what a prompt asks for.
type verb int

const (
	unclear   verb = iota
	listing        // what is in a directory
	finding        // the files of some name or kind
	reading        // a file
	searching      // a word or phrase
	counting       // files and lines
	ranking        // the longest or largest files
	locating       // where a name is defined or used
	overview       // what is this project
	helping        // what can you do
)

// intent is a prompt as far as it was understood.
type intent struct {
	verb   verb
	dir    string // "." for the root
	file   string // reading, finding
	phrase string // searching, locating
	kind   kind
	limit  int // ranking: how many files

	tree     bool // listing: what lies deeper too
	bytes    bool // ranking: by size, not by lines
	smallest bool // ranking: the other way round
	explain  bool // ranking, reading: say what the files do
	uses     bool // locating: uses, not definitions
	from, to int  // reading: lines, 0 for all
}

// understand reads a prompt. The rules are tried from the most telling to the
// least; each either fills the intent in or passes.
func understand(prompt string) intent {
	s := parseSentence(prompt)
	rules := []func(s sentence, in *intent) bool{
		asksForHelp, asksWhere, asksForRanking, asksHowMany, asksToSearch, asksToFind,
		asksToRead, asksForOverview, asksToList,
	}
	for _, rule := range rules {
		in := intent{dir: s.directory(), file: s.filePath(), kind: kindOf(s.words)}
		if rule(s, &in) {
			return in
		}
	}
	return intent{verb: unclear, dir: "."}
}

func asksForHelp(s sentence, in *intent) bool {
	in.verb = helping
	return s.lower == "" || s.lower == "help" ||
		s.has("what can you do", "how do you work", "who are you", "what are you", "what do you do", "can you help")
}

func asksWhere(s sentence, in *intent) bool {
	defines := s.has("defined", "declared", "implemented", "definition of", "declaration of", "implementation of",
		"defines", "declares", "implements", "definitions of", "find the definition")
	uses := s.has("used", "called", "referenced", "uses of", "usages of", "usage of", "callers of", "references to",
		"who calls", "what calls", "who uses", "what uses", "files use", "files call", "calls to", "where do we use")
	plain := s.starts("where", "where's") && in.file == "" // where is X?
	if s.has("mentioned") || !defines && !uses && !plain {
		return false
	}
	in.verb, in.uses, in.phrase = locating, uses && !defines, s.identifier()
	if in.dir == strings.Trim(in.phrase, "/") {
		in.dir = "."
	}
	return in.phrase != ""
}

func asksForRanking(s sentence, in *intent) bool {
	switch {
	case s.has("longest", "long", "most lines"):
	case s.has("largest", "biggest", "heaviest", "huge", "most bytes"):
		in.bytes = !s.has("lines", "by lines")
	case s.has("shortest", "fewest lines"):
		in.smallest = true
	case s.has("smallest", "tiniest"):
		in.smallest, in.bytes = true, !s.has("lines")
	default:
		return false
	}
	if s.has("how long", "how many") {
		return false
	}
	in.verb, in.limit = ranking, s.number(50, 10)
	in.explain = s.has("do", "does", "about", "purpose", "explain", "describe", "summarize", "summarise", "for", "contain", "what's in them")
	return true
}

func asksHowMany(s sentence, in *intent) bool {
	if s.has("times", "occurrences", "mentions") {
		return false
	}
	in.verb = counting
	if in.file != "" && in.dir == "." {
		in.dir = in.file
	}
	return s.has("how many", "how much code", "count", "number of", "lines of code", "loc", "how big", "how large", "how long")
}

func asksToSearch(s sentence, in *intent) bool {
	triggers := []string{
		"search for", "grep for", "look for", "occurrences of", "mentions of", "mention of", "times does", "times do",
		"mentions", "mention", "contains", "contain", "containing", "mentioning", "that import", "imports", "import",
		"search", "grep", "find",
	}
	for _, trigger := range triggers {
		i := s.index(trigger)
		if i < 0 || trigger == "find" && (in.file != "" || len(s.quoted) == 0 && in.kind.name != "") {
			continue
		}
		in.verb, in.phrase = searching, s.phraseAfter(i+len(strings.Fields(trigger)))
		if in.phrase != "" {
			in.file = ""
			return true
		}
	}
	if i := s.index("mentioned"); i > 0 {
		in.verb, in.phrase = searching, s.identifier()
		return in.phrase != ""
	}
	if s.has("todo", "todos", "fixme", "fixmes") {
		in.verb, in.phrase = searching, "TODO"
		return true
	}
	return false
}

func asksToFind(s sentence, in *intent) bool {
	in.verb = finding
	if in.file != "" {
		return s.starts("find", "where", "where's", "locate") || s.has("is there", "do we have")
	}
	return in.kind.name != "" && (s.starts("find", "list", "show", "which", "what", "ls", "give") || s.has("is there", "are there"))
}

func asksToRead(s sentence, in *intent) bool {
	in.verb = reading
	in.from, in.to = s.lines()
	in.explain = in.from == 0 && s.has("do", "does", "about", "purpose", "explain", "describe", "summarize", "summarise", "summary of", "for")
	return in.file != ""
}

func asksForOverview(s sentence, in *intent) bool {
	in.verb = overview
	return s.has("project", "repo", "repository", "codebase", "code base", "overview", "summary", "summarize", "summarise",
		"what is this", "what's this", "what is here about", "explain this", "describe this", "this about", "architecture",
		"explain the code", "this code")
}

func asksToList(s sentence, in *intent) bool {
	in.verb = listing
	in.tree = s.has("tree", "recursively", "recursive", "all files", "everything", "structure", "deep")
	if s.starts("list", "ls", "tree", "dir", "walk", "browse") || in.tree {
		return true
	}
	place := in.dir != "." || s.has("here", "there", "files", "file", "directory", "folder", "directories", "folders", "inside")
	return place && (s.starts("show", "what", "what's", "whats", "which", "give", "tell", "open", "look", "explain", "describe", "read", "cat") ||
		s.has("contents of", "content of"))
}

// lines reads "lines 10-20", "lines 10 to 20", "line 7" and "first 20 lines".
func (s sentence) lines() (from, to int) {
	text := strings.ReplaceAll(s.lower, "–", "-")
	if m := regexp.MustCompile(`\blines? (\d{1,7})(?: ?(?:-|to|through|and|until) ?(\d{1,7}))?`).FindStringSubmatch(text); m != nil {
		from, to = atoi(m[1]), atoi(m[2])
		return from, max(from, to)
	}
	if m := regexp.MustCompile(`\b(?:first|top) (\d{1,7}) lines`).FindStringSubmatch(text); m != nil {
		return 1, atoi(m[1])
	}
	return 0, 0
}

func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// identifier returns the name that the sentence asks about: what is quoted, else
// the most name-like word.
func (s sentence) identifier() string {
	if len(s.quoted) > 0 {
		return strings.TrimSuffix(s.quoted[0], "()")
	}
	best, rank := "", 0
	name := regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_.]*(\(\))?$`)
	for i, w := range s.words {
		if !name.MatchString(w) || grammar(strings.ToLower(w)) || i > 0 && inWord(strings.ToLower(s.words[i-1])) && best != "" {
			continue
		}
		w = strings.TrimSuffix(w, "()")
		r := 1
		if w != strings.ToLower(w) || strings.ContainsAny(w, "_.") {
			r = 2
		}
		if r > rank {
			best, rank = w, r
		}
	}
	return best
}

// grammar reports whether w is a word of the question, not of the code.
func grammar(w string) bool {
	return filler(w) || slices.Contains(strings.Fields(`
		where where's who who's how when why whose does did has have be been was were can could you please i we they
		defined declared implemented defines declares implements definition definitions declaration implementation define
		used called referenced uses usages usage callers caller references reference calls call use using mentioned mention
		find show list search look tell give see get function functions func method methods type types struct structs
		interface interfaces class classes constant constants const variable variables var field fields word name named
		symbol package packages from with for to at by on into come comes located live lives in under inside within of
		below not no so as if then there's exactly currently actually`), w)
}

// phraseAfter returns what is to be searched for: what is quoted, else the words
// from the i-th on, up to the place to search in.
func (s sentence) phraseAfter(i int) string {
	if len(s.quoted) > 0 {
		return s.quoted[0]
	}
	words := s.words[min(i, len(s.words)):]
	if j := slices.Index(words, "for"); j >= 0 { // search the code for X
		words = words[j+1:]
	}
	for len(words) > 0 && leading(strings.ToLower(words[0])) {
		words = words[1:]
	}
	for j, w := range words {
		lower := strings.ToLower(w)
		if j > 0 && (inWord(lower) && lower != "of" || slices.Contains([]string{"across", "throughout", "anywhere", "here", "appear", "occur"}, lower)) {
			words = words[:j]
			break
		}
	}
	return strings.Join(words, " ")
}

func leading(w string) bool {
	return slices.Contains(strings.Fields(`
		the a an all any every each word words phrase phrases text string strings term occurrences occurrence mentions
		of for files file lines line places that which with mention mentioning contain contains containing
		use using uses me references to in`), w)
}
