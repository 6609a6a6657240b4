// Package gemini adapts Google's Gemini models: the Gemini API with an API key.
//
// Everything that the API wants back is kept unchanged. A thought is a reasoning part named
// "gemini". A thought signature stays with its text or call, in the part's
// Reasoning.Signature; a signature without either is a reasoning part without text.
// Consecutive pieces of text are joined, but never across a signature. A part of an
// unknown kind is a custom part "gemini.part" with its JSON.
//
// System and Developer items form the system instruction. Consecutive Tool items are
// one message, and a Notification is a user message that says so. Requests leave out
// the reasoning of other providers. Where the API requires a signature, the first
// call of another provider's reply gets the one documented for that purpose.
//
// To test code that calls this package, set Config.BaseURL to a modeltest.Server.
package gemini
