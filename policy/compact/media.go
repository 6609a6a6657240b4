package compact

import (
	"bytes"
	"image"
	_ "image/gif" // headers of the usual formats say how large an image is
	_ "image/jpeg"
	_ "image/png"
	"math"

	"github.com/turnlog/turnlog/content"
)

// What providers bill for media, as far as they say.
const (
	// An image is made smaller until its longer edge has imageEdge pixels, and costs a
	// token for every pixelsPerToken of them. Of one whose size is not known the largest
	// is assumed.
	imageEdge      = 1568
	pixelsPerToken = 750
	minImage       = 85
	maxImage       = 1600

	// A page of a document has some bytes and costs some tokens; more pages than that
	// are taken by none.
	pageBytes  = 50 << 10
	pageTokens = 1500
	maxPages   = 100

	streamBytes = 500      // of sound or film to a token
	otherTokens = 500      // whatever else it is
	maxShown    = 32 << 20 // bytes; of what is larger a model is only told
	toldTokens  = 50
)

// mediaTokens is what an image, a document or the like costs, by its kind and size.
func mediaTokens(p content.Part, perToken float64) int64 {
	size := p.Size()
	switch {
	case size > maxShown:
		return toldTokens
	case content.Textual(p.Media.MIME):
		return int64(math.Ceil(float64(size) / perToken))
	}
	kind := p.Media.Modality
	if kind == "" {
		kind = content.Modality(p.Media.MIME)
	}
	switch kind {
	case "image":
		return imageTokens(p.Media.Bytes)
	case "document":
		return pageTokens * min(1+max(size-1, 0)/pageBytes, maxPages)
	case "audio", "video":
		return max(size/streamBytes, otherTokens)
	}
	return otherTokens
}

func imageTokens(data []byte) int64 {
	cfg, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || cfg.Width <= 0 || cfg.Height <= 0 {
		return maxImage
	}
	w, h := float64(cfg.Width), float64(cfg.Height)
	if scale := imageEdge / max(w, h); scale < 1 {
		w, h = w*scale, h*scale
	}
	return min(max(int64(math.Ceil(w*h/pixelsPerToken)), minImage), maxImage)
}
