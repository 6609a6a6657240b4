package signed

// MaxCovered is maxCovered.
const MaxCovered = maxCovered

// Waiting returns how many entries are kept until their signatures are checked or covered.
func (c *Entries) Waiting() (n int) {
	for _, all := range c.covered {
		n += len(all)
	}
	return n + len(c.open)
}
