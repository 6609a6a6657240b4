// Package openai is the adapter of models behind OpenAI's HTTP interfaces: OpenAI
// itself, and every server that speaks as it does, such as Ollama, vLLM, LM
// Studio, OpenRouter, Groq, Mistral and DeepSeek.
//
// The one idea: there are two interfaces and one transcript. [Responses] is what
// OpenAI's own address is asked by default, [Chat] what any other base URL is.
// The transcript is the truth: nothing is stored at the provider and no request
// names an earlier one, so a reply carries all that the next request has to give
// back. Reasoning goes into reasoning parts named "openai": through Responses as
// the whole item with its encrypted content, through Chat as the text under the
// name that the server gave it. It is sent back only to the host that it came
// from, beside the calls that it led to; other providers' reasoning is left out.
//
// What the adapter promises:
//
//   - One call is one HTTP exchange; the SDK's own retries are off, and so are the
//     environment variables that the SDK reads by itself.
//   - The key is in the Authorization header and nowhere else. Without a key there
//     is no such header.
//   - A tool is strict only where its schema is within the strict subset already;
//     no schema is changed.
//   - Through Chat, a compatible server is sent nothing of what only OpenAI has
//     (the cache, storage, strict tools, the developer's role), and it may leave
//     out usage, ids of calls, indexes of calls and the end mark.
//
// It does not keep conversations at the provider, run the provider's own tools,
// or read reasoning from tags within the text. Cache breakpoints are left to the
// provider: of a cache request, the key and the retention count.
//
// The settings of a model are [Config]; as options of its name they are called
// api, base_url, context, compact, effort, max_tokens, summary, temperature and
// usage.
//
// To test against it, let modeltest.Serve play the provider and point BaseURL to
// it.
package openai
