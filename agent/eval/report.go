package eval

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/textfile"
)

// version is the version of the JSON of reports.
const version = 1

// Report is the outcome of a suite. Its JSON can be read as a baseline.
type Report struct {
	Version int    `json:"version"`
	Suite   string `json:"suite"`
	Passed  Rate   `json:"passed"` // how many of the cases passed
	Cases   []Done `json:"cases"`

	// Results of a comparison with a baseline, see Compare.
	Baseline    bool     `json:"baseline"`
	Regressions []Change `json:"regressions"`
	Improved    []string `json:"improved"` // cases that failed and pass
	Missing     []string `json:"missing"`  // cases that only the baseline has
}

// Done is the outcome of a case.
type Done struct {
	Name    string   `json:"name"`
	Passed  bool     `json:"passed"`
	Need    float64  `json:"pass_rate"` // the rate of repeats that must pass
	Rate    Rate     `json:"rate"`
	Low     float64  `json:"low"` // lower end of the rate's 95 % interval, see Rate.Interval
	High    float64  `json:"high"`
	Results []Result `json:"results"` // by number
}

// Result is one run of a case.
type Result struct {
	Session    content.SessionID `json:"session"`
	Journal    string            `json:"journal,omitempty"` // the file with its journal, if it was kept
	Replay     bool              `json:"replay"`            // the session was in memory, so the deployment does not have it
	Kept       bool              `json:"kept"`              // it had run before
	Passed     bool              `json:"passed"`
	Outcome    string            `json:"outcome"` // how the last turn ended
	Problems   []Failure         `json:"problems"`
	Rounds     int               `json:"rounds"`
	Calls      int               `json:"calls"`
	Tokens     int64             `json:"tokens"`
	CostMicros int64             `json:"cost_micros"` // millionths of the currency; 0 if it is unknown
	Currency   string            `json:"currency"`
	Seconds    float64           `json:"seconds"` // from the start of the session to the end of its last turn
}

// Failure is a check that failed.
type Failure struct {
	Check   string `json:"check"`
	Problem string `json:"problem"`
}

// Change is a case that does worse than in the baseline.
type Change struct {
	Case string `json:"case"`
	Why  string `json:"why"`
}

// done sums up the results of a case.
func done(c Case, results []Result) Done {
	d := Done{Name: c.Name, Need: c.rate(), Results: results, Rate: Rate{Of: len(results)}}
	for _, r := range results {
		if r.Passed {
			d.Rate.Passed++
		}
	}
	d.Low, d.High = d.Rate.Interval()
	d.Passed = d.Rate.Part() >= d.Need
	return d
}

func (c Case) rate() float64 {
	if c.PassRate == 0 {
		return 1
	}
	return c.PassRate
}

// sum adds up a number of the results.
func (d Done) sum(of func(Result) int64) (n int64) {
	for _, r := range d.Results {
		n += of(r)
	}
	return n
}

// Failed reports whether the pipeline should fail: with a baseline if there is a regression, which includes a new case
// that fails; without one if any case fails.
func (r *Report) Failed() bool {
	if r.Baseline {
		return len(r.Regressions) > 0
	}
	return r.Passed.Passed < r.Passed.Of
}

// LoadReport reads the JSON of a report.
func LoadReport(file string) (*Report, error) {
	const limit = 64 << 20
	data, err := textfile.ReadFile(file, limit)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("baseline %s: %w: use the output of \"turnlog eval -o json\"", file, err)
	}
	if r.Version != version {
		return nil, fmt.Errorf("baseline %s: version %d, want %d: use the output of \"turnlog eval -o json\" of this release", file, r.Version, version)
	}
	for _, d := range r.Cases {
		if d.Rate.Passed < 0 || d.Rate.Passed > d.Rate.Of {
			return nil, fmt.Errorf("baseline %s: case %s: %d of %d repeats is not a valid rate: use the output of \"turnlog eval -o json\"", file, d.Name, d.Rate.Passed, d.Rate.Of)
		}
	}
	return &r, nil
}

// Compare compares the report with an earlier one, by the names of the cases. A case is a regression if it passed before
// and fails now, if it is new and fails, or if its rate is lower by more than chance explains: the 95 % interval of the
// difference of the rates is below zero, see Rate.Difference. A case that failed before and fails now is not a regression.
func (r *Report) Compare(base *Report) {
	r.Baseline, r.Regressions, r.Improved, r.Missing = true, []Change{}, []string{}, []string{}
	for _, d := range r.Cases {
		i := slices.IndexFunc(base.Cases, func(b Done) bool { return b.Name == d.Name })
		switch {
		case i < 0 && !d.Passed:
			r.regress(d, "it is new and fails: %s", d.Rate)
		case i < 0:
		case base.Cases[i].Passed && !d.Passed:
			r.regress(d, "it passed with %s and fails with %s", base.Cases[i].Rate, d.Rate)
		case below(d.Rate, base.Cases[i].Rate):
			r.regress(d, "%s is less than %s by more than chance explains", d.Rate, base.Cases[i].Rate)
		case !base.Cases[i].Passed && d.Passed:
			r.Improved = append(r.Improved, d.Name)
		}
	}
	for _, b := range base.Cases {
		if !slices.ContainsFunc(r.Cases, func(d Done) bool { return b.Name == d.Name }) {
			r.Missing = append(r.Missing, b.Name)
		}
	}
}

func below(now, was Rate) bool {
	_, high := now.Difference(was)
	return high < 0
}

func (r *Report) regress(d Done, why string, args ...any) {
	r.Regressions = append(r.Regressions, Change{d.Name, fmt.Sprintf(why, args...)})
}

// String returns the rate with its interval, as in 4/5 (38–96 %).
func (r Rate) String() string {
	low, high := r.Interval()
	return fmt.Sprintf("%d/%d (%.0f–%.0f %%)", r.Passed, r.Of, 100*low, 100*high)
}
