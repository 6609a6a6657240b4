// Package acp tests gateway/acp with the client side of the protocol's SDK, on a whole deployment.
package acp
