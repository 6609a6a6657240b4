package agentfile

import "github.com/goccy/go-yaml/ast"

// maxNodes bounds how many values a file may have once its aliases are unfolded.
const maxNodes = 1 << 16

// unfolds notes the anchors of a file, and reports whether what it comes to with its
// aliases is of a size that somebody meant.
func (r *reader) unfolds(body ast.Node) bool {
	r.anchors = make(map[string]ast.Node)
	sizes := make(map[string]int)
	if size(body, r.anchors, sizes) <= maxNodes {
		return true
	}
	r.report("", "unfolds to more than %d values by its aliases", maxNodes)
	return false
}

// size is how many values a node holds once aliases are unfolded, or some number above
// maxNodes. It fills in anchors, and the sizes of their values.
func size(node ast.Node, anchors map[string]ast.Node, sizes map[string]int) int {
	total := 1
	add := func(n ast.Node) {
		if total <= maxNodes {
			total += size(n, anchors, sizes)
		}
	}
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			add(v.Value)
		}
	case *ast.SequenceNode:
		for _, v := range n.Values {
			add(v)
		}
	case *ast.TagNode:
		add(n.Value)
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		anchors[name] = n.Value
		add(n.Value)
		sizes[name] = total
	case *ast.AliasNode:
		total += sizes[n.Value.GetToken().Value]
	}
	return total
}
