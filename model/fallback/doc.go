// Package fallback is a model made of several: what one cannot answer, the next one
// is asked.
//
// The one idea: an attempt that has shown nothing yet may change its mind. [Model]
// asks its models in order. If one fails with a class at which it passes on
// ([Defaults], [Config.On]) before its first delta, the next is asked within the
// same attempt. If it fails after that, the attempt has failed: only the caller's
// next one supersedes what was shown, and that one begins with the model after it.
//
// So an attempt may be several requests, one to each model at most. What the failed
// ones were billed is in the reply's usage, or in the failure's. The reply says who
// answered: in Model, by the provider's name for it, and if it was not the first
// model, in the metadata of its first item under "fallback", with what the others
// failed at.
//
// When all fail, the failure is the first one that another attempt may mend, if
// there is one; its message has all of them.
//
// By default a model that finds the request invalid, or refuses it for what it says,
// is believed: neither passes on. A prompt that is too long does not either, since
// compaction is its remedy; name context_too_long in On if the next model has the
// larger window. A reply that ends as blocked is a reply.
//
// What a model can do is what all of its models can do. To test against it, make it
// of modeltest.Fake models.
package fallback
