package compact

import (
	"bytes"
	"image"
	_ "image/gif" // decode the sizes of common formats
	_ "image/jpeg"
	_ "image/png"
	"math"

	"github.com/turnlog/turnlog/content"
)

// What providers document about the cost of media.
const (
	// An image is scaled down until its longer edge has imageEdge pixels, and costs a token
	// per pixelsPerToken. An unknown size counts as the largest.
	imageEdge      = 1568
	pixelsPerToken = 750
	minImage       = 85
	maxImage       = 1600

	// No provider accepts more than maxPages pages of a document.
	pageBytes  = 50 << 10
	pageTokens = 1500
	maxPages   = 100

	streamBytes     = 500      // of audio or video per token
	otherTokens     = 500      // for anything else
	maxShown        = 32 << 20 // bytes; models get only a reference to larger media
	referenceTokens = 50
)

// mediaTokens returns what media cost, by kind and size.
func mediaTokens(p content.Part, perToken float64) int64 {
	size := p.Size()
	switch {
	case size > maxShown:
		return referenceTokens
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
