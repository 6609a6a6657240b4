// Package fallback combines several models into one: if a model fails, the next one is
// called.
//
// [Model] calls its models in order. If one fails before its first delta, with a class
// in [Config.On], the next model is called within the same attempt. If one fails after its
// first delta, the attempt fails, because only the next attempt can supersede what was
// emitted. Each attempt begins with the next model after the one with which the previous
// attempt began; after the last model comes the first one.
//
// So an attempt makes at most one request to each model. The usage of a reply or a
// failure includes the failed requests. Reply.Model names the model that replied. If
// that is not the first one, the first item has metadata under "fallback" with the
// failures of the others.
//
// If all models fail, the error is the first one that is retryable, or else the last
// one. Its message contains all of them.
//
// By default, an invalid request and a blocked one end the attempt. So does a prompt
// that is too long, which the session compacts; add context_too_long to On if the next
// model has a larger window. A reply with finish reason blocked is a reply.
//
// The capabilities are those that all models have. Test code that uses this package
// with modeltest.Fake models.
package fallback
