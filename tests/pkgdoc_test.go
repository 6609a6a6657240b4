package tests

import (
	"testing"

	"github.com/turnlog/turnlog/internal/testing/archtest"
)

func TestEveryPackageAndExportedNameIsDocumented(t *testing.T) {
	t.Parallel()
	report(t, archtest.CheckDocs(load(t)))
}

func TestNoFileHoldsWhatNoneMay(t *testing.T) {
	t.Parallel()
	report(t, archtest.CheckShape(load(t)))
}
