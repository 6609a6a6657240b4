// Package provider holds what the adapters of models behind HTTP share: the
// stream of a reply in the making ([Reply]), an HTTP client that ends a response
// which has gone silent and takes keys nowhere else ([Client], [Transport]), and
// what a failed exchange means ([ClassOf], [RetryAfter], [Broken]), told without
// secrets ([Scrub]).
//
// It knows no provider. An adapter keeps what only its provider has: how a
// request is written, how events are read, and which of its codes mean more than
// their status.
package provider
