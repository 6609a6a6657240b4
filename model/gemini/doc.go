// Package gemini makes Google's Gemini models available as a [model.Model], on the
// Gemini API with an API key.
//
// The one idea: what the provider sends is kept as parts of the reply, and given
// back as those parts. A thought is a reasoning part named "gemini". A thought
// signature stays, byte for byte, with the text or the call that it came with, in
// the part's Reasoning.Signature; one that came with nothing else is a reasoning
// part without text. Pieces of text are joined, but never across a signature.
// Any part that has no name here is a custom part "gemini.part" with its JSON.
//
// System and Developer items are the system instruction, Tool items that follow
// each other are one message, and a Notification is a message of the user that says
// so. Reasoning of other providers is left out; the first call of a foreign reply
// gets the signature that the provider documents for calls that it did not make
// itself, where it demands one.
//
// Options: max_tokens, temperature, thinking_level, thinking_budget, thoughts,
// context, base_url ([Config]). The environment is not consulted, and no cloud
// credentials are looked for.
//
// To test against it, serve bytes with modeltest.Serve and give their address as
// BaseURL.
package gemini
