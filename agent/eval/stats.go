package eval

import "math"

// z is the quantile of the normal distribution for a two-sided interval of 95 %.
const z = 1.959963984540054

// Rate says how many of a number of trials passed.
type Rate struct {
	Passed int `json:"passed"`
	Of     int `json:"of"`
}

// Part returns the observed rate, from 0 to 1: 0 without trials.
func (r Rate) Part() float64 {
	if r.Of == 0 {
		return 0
	}
	return float64(r.Passed) / float64(r.Of)
}

// Interval returns the 95 % score interval of the rate (Wilson, Journal of the American Statistical Association 22,
// 1927, without continuity correction). Unlike the usual interval around the mean, it is right for few trials and for
// rates of 0 and 1: 5 of 5 is 0.57 to 1. Without trials it is 0 to 1.
func (r Rate) Interval() (low, high float64) {
	if r.Of == 0 {
		return 0, 1
	}
	n, p := float64(r.Of), r.Part()
	center := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(center-half, 0), min(center+half, 1)
}

// Difference returns the 95 % interval of r's rate minus s's, of independent trials (Newcombe, Statistics in Medicine 17,
// 1998, method 10: from the score intervals of both).
func (r Rate) Difference(s Rate) (low, high float64) {
	p, q := r.Part(), s.Part()
	l, u := r.Interval()
	m, v := s.Interval()
	return p - q - math.Hypot(p-l, v-q), p - q + math.Hypot(u-p, q-m)
}
