// Package page tests the gateway's page in a real browser: Chromium, driven by Playwright. Neither is part of this
// module. The tests have the build tag browser; ".ci/run page" installs what they need and runs them.
package page
