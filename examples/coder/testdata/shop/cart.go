// Package shop adds up carts.
package shop

// Line is an article in a cart.
type Line struct {
	Name  string
	Cents int // of one piece
	Count int
}

// Total is what a cart costs. From ten pieces on, an article is a tenth cheaper.
func Total(cart []Line) int {
	total := 0
	for _, l := range cart {
		cents := l.Cents * l.Count
		if l.Count > 10 {
			cents -= cents / 10
		}
		total += cents
	}
	return total
}
