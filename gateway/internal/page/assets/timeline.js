// What ran when in a session: model calls, tool calls, questions, and the nodes that drove it. Time in which nothing happens is
// compressed, so what ran at the same time is seen at the same place.
import { fill, h, span } from './dom.js'

// still is how long a pause is shown, at most, in seconds.
const still = 10

// most is how many lines are shown, the newest.
const most = 200

// spansOf returns what began and ended in entries, in the order of its beginning.
export function spansOf(entries) {
  const spans = []
  const open = new Map()
  const tools = new Map()
  let node = '', left = true
  const begin = (key, what, at, state) => {
    const s = { what, from: at, to: null, state }
    spans.push(s)
    open.set(key, s)
  }
  const end = (key, at, state) => {
    const s = open.get(key)
    if (s) Object.assign(s, { to: at, state: state || s.state })
    open.delete(key)
  }
  for (const entry of entries) {
    const at = new Date(entry.at).getTime() / 1000
    for (const e of entry.events) {
      const model = `model ${e.turn} ${e.round} ${e.attempt}` // a key
      const again = e.attempt > 1 ? `, attempt ${e.attempt}` : ''
      switch (e.kind) {
        case 'driver_claimed':
          spans.push({ what: node && !left ? `taken over by node ${e.node}` : `driven by node ${e.node}`, from: at, to: at, state: node && !left ? 'bad' : 'mark' })
          node = e.node
          left = false
          break
        case 'parked': left = true; break
        case 'model_call_started': begin(model, `model, round ${e.round}${again}`, at, 'run'); break
        case 'reply_recorded': end(model, at, 'good'); break
        case 'model_call_failed': end(model, at, 'bad'); break
        case 'tool_call_requested': tools.set(e.call.id, e.call.name); break
        case 'tool_dispatched': begin('call ' + e.call, (tools.get(e.call) ?? e.call) + again, at, 'run'); break
        case 'tool_attempt_lost': end('call ' + e.call, at, 'bad'); break
        case 'tool_result_received': end('call ' + e.result.call_id, at, e.result.status === 'ok' ? 'good' : 'bad'); break
        case 'approval_required': begin('question ' + e.approval.id, 'question about ' + e.approval.tool, at, 'wait'); break
        case 'approval_resolved': end('question ' + e.approval, at); break
      }
    }
  }
  return spans
}

// axis returns where a time is, from 0 to 1. Pauses are compressed.
export function axis(spans, now) {
  const times = [...new Set(spans.flatMap((s) => [s.from, s.to ?? now]))].sort((a, b) => a - b)
  const at = new Map()
  let sum = 0
  times.forEach((t, i) => {
    sum += i > 0 ? Math.min(t - times[i - 1], still) : 0
    at.set(t, sum)
  })
  return (t) => sum > 0 ? at.get(t) / sum : 0
}

// timeline shows what ran in entries.
export function timeline(node, entries) {
  const spans = spansOf(entries).slice(-most)
  const now = Date.now() / 1000
  const place = axis(spans, now)
  fill(node, h('div.spans', { tabindex: 0, role: 'region', 'aria-label': 'Timeline' }, h('ol', null, spans.map((s) => {
    const to = s.to ?? now
    const bar = h('span.' + s.state)
    bar.style.left = `min(${place(s.from) * 100}%, 100% - 3px)` // as wide as the narrowest bar
    bar.style.width = (place(to) - place(s.from)) * 100 + '%'
    const took = to > s.from ? span(to - s.from) + (s.to === null ? ' so far' : '') : ''
    return h('li', null, h('span.what', null, s.what, ' ', h('span.quiet', null, took)), h('span.track', { 'aria-hidden': 'true' }, bar))
  }))), h('p.small.quiet', null, `Pauses of more than ${still} s are drawn as ${still} s.`))
}
