// Requests to the gateway's API.

// Problem is an error that the gateway describes.
export class Problem extends Error {
  constructor(status, document) {
    super([document.detail ?? document.title, document.do].filter(Boolean).join(': '))
    this.status = status
  }
}

// parse reads JSON. A number that a browser would change, such as 9007199254740993, stays as it was written, in what is
// shown and in what is sent: who approves arguments sees those that the tool gets.
export const parse = (text) => JSON.parse(text, (_, value, { source } = {}) => typeof value === 'number' && source !== undefined && changed(value, source) ? JSON.rawJSON(source) : value)

const changed = (value, source) => {
  const digits = source.replace(/[eE].*/, '').replace(/\D/g, '').replace(/^0+/, '')
  return digits.length > 15 || !Number.isFinite(value) || value === 0 && digits !== ''
}

async function request(method, path, body, headers) {
  let response
  try {
    response = await fetch(path, { method, headers, body })
  } catch {
    throw new Problem(0, { title: 'The gateway does not answer', do: 'check that it runs; this page goes on when it is back' })
  }
  if (response.status === 401) location.reload() // which asks for a token
  const text = await response.text()
  let value = {}
  try { value = text === '' ? {} : parse(text) } catch { value = { title: text.slice(0, 200) } }
  if (!response.ok) throw new Problem(response.status, value)
  return value
}

export const get = (path) => request('GET', path)

// key returns the name of a new command, by which the gateway knows a repetition.
export const key = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')

export const post = (path, body, name = key()) => request('POST', path, JSON.stringify(body ?? {}), { 'Content-Type': 'application/json', 'Idempotency-Key': name })

// upload stores a file, and returns what an input says about it.
export const upload = (file) => request('POST', '/api/files?name=' + encodeURIComponent(file.name), file, { 'Content-Type': file.type || 'application/octet-stream' })

export const at = (...parts) => '/api/' + parts.map(encodeURIComponent).join('/')
