// Package oidc authenticates people with an OpenID Connect provider: browsers with a login, and programs with a token of
// the provider.
//
// No gateway stores a login. The state of a login in progress, and then the identity of the person, are in cookies that
// only gateways with the same key can read or make. So any number of gateways can serve one login.
//
// A login is an authorization code flow with PKCE, a state and a nonce. It ends when the ID token expires. The browser
// then goes to the provider again, whose session may last longer, and which can refuse.
package oidc
