// Package oidc admits people whom a provider of OpenID Connect knows: browsers after a login, and programs with a token
// of the provider.
//
// The one idea: no gateway stores a login. What a login needs until the browser comes back, and then who the person
// is, are in cookies that only gateways with the same key can read or make. So any number of gateways serve one login.
//
// A login is an authorization code flow with PKCE, a state and a nonce. It is over when the ID token is: then the browser
// goes to the provider again, which has the longer memory, and can refuse.
package oidc
