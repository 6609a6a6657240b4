// Package openai adapts models with OpenAI's HTTP APIs: OpenAI itself and
// compatible servers such as Ollama, vLLM, LM Studio, OpenRouter, Groq, Mistral and
// DeepSeek.
//
// There are two APIs: [Responses], the default for OpenAI's own address, and [Chat],
// the default for any other. Nothing is stored at the provider and no request names
// an earlier one, so a reply contains everything that later requests have to send
// back. Reasoning is a reasoning part named "openai": the whole item with its
// encrypted content from Responses, or text and the name of its field from Chat. It
// is sent back only to the host that it came from, next to its calls.
//
// Guarantees:
//
//   - One call is one HTTP exchange.
//   - The key is only in the Authorization header. Without a key there is no such
//     header.
//   - A tool is strict only if its schema is in the strict subset. No schema is
//     changed.
//   - Requests to compatible servers through Chat contain nothing that only OpenAI
//     supports: cache, storage, strict tools, the developer role. Such servers may omit
//     usage, ids and indexes of calls, and the end mark.
//
// The package does not run the provider's own tools and does not search for reasoning
// inside text. The provider chooses cache breakpoints; only the key and the retention of
// a cache request are sent.
//
// To test code that calls this package, set Config.BaseURL to a modeltest.Server.
package openai
