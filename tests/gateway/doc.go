// Package gateway tests gateways of a deployment as their clients see them, over HTTP: in virtual time, with
// nodes, gateways and connections that die.
package gateway
