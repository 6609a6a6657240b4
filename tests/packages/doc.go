// Package packages checks the files in docs/systemd and docs/deploy against the binaries that they run, and runs a
// deployment as docs/deploy describes it, on three servers. It needs no Docker and no Kubernetes. Tests with the build tag
// deploy use Helm and the like, which they build first: .ci/run deploy runs them.
package packages
