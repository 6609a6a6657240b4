// One session: its transcript as it is written, and its journal.
import { at, get, key, parse, post } from './api.js'
import { clip, ends, fill, h, json, money, span } from './dom.js'
import { attach } from './files.js'
import { card, same } from './inbox.js'
import { markdown } from './markdown.js'
import { timeline } from './timeline.js'

// A long session comes in pages: its newest items and entries, and those before them on demand.
const pageOfItems = 200
const pageOfEntries = 500

// open shows a session in a view, and returns a function that ends it.
export async function open(view, id, tell) {
  const s = new Session(view, id, tell)
  await s.start()
  return () => s.stop()
}

class Session {
  constructor(view, id, tell) {
    Object.assign(this, { view, id, tell, pieces: new Map(), from: 0, results: new Map(), changed: new Map(), ended: false })
  }

  async start() {
    this.facts = h('p.bar.small.quiet')
    this.questions = h('section', { 'aria-label': 'Waits for a decision' })
    this.running = h('section', { 'aria-label': 'Running calls' })
    this.talk = h('ol.talk', { 'aria-live': 'polite', 'aria-label': 'Transcript' })
    this.writing = h('div.text.live', { hidden: true })
    this.ending = h('div')
    this.input = h('textarea', { rows: 2, 'aria-label': 'Message', placeholder: 'Write a message; Ctrl-Enter sends it', 'data-focus': true })
    this.input.addEventListener('keydown', (e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) this.send() })
    this.actions = h('span.bar')
    this.files = attach(this.input, this.tell)
    this.compose = h('form.compose', { onsubmit: (e) => { e.preventDefault(); this.send() }, hidden: true }, this.input, h('div.bar', null, this.actions, this.files.row))
    this.journal = h('section.journal')
    const tabs = h('div.bar', { role: 'tablist' })
    const talking = h('div', null, this.talk, this.writing, this.ending, this.running, this.questions, this.compose)
    const tab = (name, show, on) => h('button', { role: 'tab', type: 'button', 'aria-selected': on, onclick: (e) => {
      for (const b of tabs.children) b.setAttribute('aria-selected', b === e.target)
      talking.hidden = show !== talking
      this.journal.hidden = show !== this.journal
      if (show === this.journal) this.showJournal()
    } }, name)
    this.journal.hidden = true
    tabs.append(tab('Conversation', talking, true), tab('Journal', this.journal, false))
    this.heading = h('h1', null, this.id)
    fill(this.view, this.heading, this.facts, tabs, talking, this.journal)
    await Promise.all([this.look().catch(this.tell), this.read()])
    toEnd()
    this.listen()
  }

  stop() {
    this.ended = true
    this.events?.close()
  }

  // look reads what the session is and waits for.
  async look() {
    const s = await get(at('sessions', this.id))
    if (this.ended) return
    this.may = s.may
    this.heading.textContent = s.title || this.id
    fill(this.facts, h('span.tag.' + s.state, null, s.state),
      [this.id, clip(s.model, 40), s.agent && 'agent ' + s.agent.name, s.turns + (s.turns === 1 ? ' turn' : ' turns'),
        s.usage.input_tokens + s.usage.output_tokens + ' tokens', s.usage.cost_micros && money(s.usage)].filter(Boolean).map((x) => h('span', null, x)))
    const open = !['closed', 'deleted'].includes(s.state)
    this.compose.hidden = !(open && s.may.drive)
    const working = s.turn !== undefined && s.turn !== ''
    const cut = !working && s.last && s.last.finish_reason !== 'completed'
    this.stick(() => fill(this.ending, cut && h('p', null, h('span.tag.bad', null, s.last.finish_reason), ' ', s.last.error ?? 'The turn ended before its answer was complete.')))
    fill(this.actions, h('button.main', { type: 'submit' }, working ? 'Add to the turn' : 'Send'),
      working && h('button', { type: 'button', onclick: () => this.act('cancel', {}) }, 'Cancel the turn'))
    const { calls } = await get(at('sessions', this.id, 'calls'))
    const now = calls.filter((c) => c.state === 'running')
    if (!same(this.running, [now, s.may.drive])) fill(this.running, now.map((c) => this.runs(c, s.may.drive)))
    const { approvals } = await get('/api/approvals?session=' + encodeURIComponent(this.id))
    if (!same(this.questions, approvals)) this.stick(() => fill(this.questions, approvals.map((a) => card(a, this.tell, () => this.look()))))
  }

  // runs shows a call that runs, and what may be done about it.
  runs(c, may) {
    const act = (what) => h('button', { type: 'button', onclick: () => this.act(['calls', c.call, what], {}) }, what === 'cancel' ? 'Cancel the call' : 'To the background')
    return h('p.bar.running', null, h('span.tag.working', null, c.route === 'background' ? 'in the background' : 'runs'), h('strong', null, c.tool), may && [act('cancel'), c.route !== 'background' && act('detach')])
  }

  // read reads the newest part of the transcript.
  async read() {
    const t = await this.items(0)
    if (this.ended) return
    this.cursor = t.cursor
    this.pieces.clear()
    this.results.clear()
    fill(this.talk, this.from > 0 && this.earlier(), this.rows(t.items))
    this.write()
    toEnd()
  }

  // items reads those before a place; 0: the newest ones.
  async items(before) {
    const t = await get(at('sessions', this.id, 'transcript') + `?limit=${pageOfItems}&before=${before}`)
    this.from = t.from
    for (const [id, c] of Object.entries(t.changed)) this.changed.set(id, c)
    return t
  }

  rows(items) {
    for (const item of items) this.learn(item)
    return items.map((i) => this.item(i)).filter(Boolean)
  }

  earlier() {
    const button = h('button', { onclick: async () => {
      button.disabled = true
      try {
        const { items } = await this.items(this.from)
        row.after(...this.rows(items))
        if (this.from === 0) row.remove()
        button.textContent = `Show earlier (${this.from} more)`
      } catch (err) { this.tell(err) }
      button.disabled = false
    } }, `Show earlier (${this.from} more)`)
    const row = h('li', null, button)
    return row
  }

  // learn keeps results, which are shown with their calls.
  learn(item) {
    for (const p of item.parts ?? []) {
      if (p.result) this.results.set(p.result.call_id, p.result)
    }
  }

  // item shows an item of the transcript. Results are part of their calls.
  item(item) {
    if (item.kind === 'user') return h('li', null, h('div.user', null, plain(item)))
    if (item.kind === 'assistant') {
      return h('li', null, (item.parts ?? []).map((p) => {
        if (p.kind === 'text') return h('div.text', null, markdown(p.text ?? ''))
        if (p.call) return this.call(p.call)
        if (p.kind === 'reasoning') return h('details.call', null, h('summary', null, 'Reasoning'), h('pre', null, p.text ?? ''))
        return h('p.quiet', null, `[${p.kind}]`)
      }))
    }
    const text = plain(item)
    return text && !item.parts.some((p) => p.result) ? h('li.quiet.small', null, item.kind + ': ' + clip(text, 2000)) : null
  }

  // call shows a call with its result, if there is one.
  call(call) {
    const node = h('details.call', { 'data-call': call.id })
    this.fillCall(node, call)
    node.call = call
    return node
  }

  // fillCall shows the arguments with which a call ran. A person may have put them in place of the model's.
  fillCall(node, call) {
    const r = this.results.get(call.id)
    const state = r ? r.status : 'open'
    const tone = !r ? 'working' : r.status === 'ok' ? 'good' : r.status === 'denied' || r.is_error ? 'bad' : 'warn'
    const changed = this.changed.get(call.id)
    const now = { ...call, ...changed }
    fill(node, h('summary', null, h('strong', null, visible(call.name)), h('span.what', null, clip(visible(JSON.stringify(now.input ?? {})), 120)),
      changed && h('span.tag.warn', null, 'changed by ' + ends(visible(changed.by), 80)), h('span.tag.' + tone, null, state)),
    shown(now), changed && h('details', null, h('summary.small', null, 'What the model asked for'), shown(call)),
    r && h('pre', null, clip(outputOf(r), 20000)), this.explained(call))
  }

  // again fills what shows a call, of which the journal says more.
  again(id) {
    for (const node of this.talk.querySelectorAll('details.call')) {
      if (node.call?.id === id) this.fillCall(node, node.call)
    }
  }

  // explained says on demand who asked for a call, what let it run, and what came of it.
  explained(call) {
    const text = h('pre', { hidden: true })
    return [h('button', { type: 'button', onclick: async () => {
      try {
        text.textContent = (await get(at('sessions', this.id, 'calls', call.id))).text
        text.hidden = false
      } catch (err) { this.tell(err) }
    } }, 'Explain this call'), text]
  }

  append(item) {
    this.learn(item)
    const row = this.item(item)
    if (row) this.stick(() => this.talk.append(row))
  }

  // stick keeps the end in sight if it was.
  stick(change) {
    const end = innerHeight + scrollY > document.body.scrollHeight - 80
    change()
    if (end) scrollTo(0, document.body.scrollHeight)
  }

  listen() {
    if (this.ended) return
    this.events = new EventSource(at('sessions', this.id, 'events') + '?after=' + encodeURIComponent(this.cursor))
    this.events.addEventListener('entry', (e) => { this.seen(e); this.entry(parse(e.data)) })
    this.events.addEventListener('piece', (e) => { this.seen(e); this.piece(JSON.parse(e.data)) })
    this.events.addEventListener('void', (e) => { this.seen(e); this.pieces.clear(); this.write() })
    this.events.addEventListener('trouble', (e) => this.tell(new Error(JSON.parse(e.data).detail)))
    this.events.addEventListener('end', () => { this.stop(); this.tell('The session was deleted.') })
    this.events.onopen = () => this.tell('')
    this.events.onerror = () => {
      this.tell('Not connected; trying again…')
      if (this.events.readyState === EventSource.CLOSED) setTimeout(() => this.resume(), 1000)
    }
  }

  // resume reads the session again and listens from there. The gateway refused the place at which the page was, perhaps
  // since the session was restored from a backup.
  async resume() {
    if (this.ended) return
    try {
      await this.read()
    } catch (err) {
      this.tell(err)
      setTimeout(() => this.resume(), 1000)
      return
    }
    this.listen()
  }

  seen(e) { if (e.lastEventId) this.cursor = e.lastEventId }

  piece(p) {
    if (p.kind !== 'text' || p.op !== 'append') return
    this.pieces.set(p.part, (this.pieces.get(p.part) ?? '') + p.text)
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined
      this.stick(() => this.write())
    })
  }

  write() {
    const parts = [...this.pieces.keys()].sort((a, b) => a - b).map((n) => this.pieces.get(n))
    this.writing.hidden = parts.length === 0
    fill(this.writing, parts.map((text) => markdown(text)))
  }

  // entry follows the journal. What changes the transcript in another way than by adding to it has it read again.
  entry(e) {
    for (const ev of e.events ?? []) {
      switch (ev.kind) {
        case 'input_accepted':
          ev.items.forEach((i) => this.append(i))
          break
        case 'reply_recorded':
          this.pieces.clear()
          this.write()
          ;(ev.items ?? []).forEach((i) => this.append(i))
          break
        case 'tool_result_received':
          this.results.set(ev.result.call_id, ev.result)
          this.again(ev.result.call_id)
          break
        case 'approval_resolved':
          if (!ev.input) break
          this.changed.set(ev.call, { input: ev.input, by: sender(ev.user, ev.by) })
          this.again(ev.call)
          break
        case 'mutation_finished': case 'memory_recalled':
          this.read().catch(this.tell)
          break
      }
    }
    clearTimeout(this.soon)
    this.soon = setTimeout(() => this.look().catch(this.tell), 60)
    this.newest = e.seq
    if (this.entries?.last === e.seq - 1) this.stick(() => this.log([e]))
    else if (this.entries) this.after().catch(this.tell)
  }

  // send sends the message with its files. A second try of the same is the same command.
  async send() {
    const text = this.input.value.trim()
    if (text === '' && this.files.empty() || this.sending) return
    this.sending = true
    try {
      const body = { text, files: await this.files.stored() }
      const name = JSON.stringify(body)
      if (this.tried?.name !== name) this.tried = { name, key: key() }
      await post(at('sessions', this.id, 'input'), body, this.tried.key)
      this.tried = undefined
      if (this.input.value.trim() === text) this.input.value = ''
      this.files.clear()
    } catch (err) { this.tell(err) }
    this.sending = false
  }

  async act(what, body) {
    try { await post(at('sessions', this.id, ...[what].flat()), body) } catch (err) { this.tell(err) }
    this.look().catch(this.tell)
  }

  // showJournal shows the newest entries, and follows the journal from then on. The verdict is on all of them.
  async showJournal() {
    if (this.entries) return
    const verdict = h('div')
    const list = h('div.entries')
    const more = h('button', { onclick: () => this.before() })
    const when = h('div')
    const times = h('details', { ontoggle: () => this.draw() }, h('summary', null, 'Timeline'), when)
    try {
      const { journal } = await get(at('sessions', this.id))
      if (this.entries) return // by another click
      const from = Math.max(0, journal.seq - pageOfEntries)
      this.entries = { list, more, times, when, all: [], first: from, last: from, time: 0 }
      fill(this.journal, verdict, times, more, list)
      await this.after()
      this.allBefore()
      toEnd()
      await this.verify(verdict)
    } catch (err) { this.tell(err) }
  }

  allBefore() {
    this.entries.more.hidden = this.entries.first === 0
    this.entries.more.textContent = `Show earlier (${this.entries.first} more)`
  }

  // after reads the entries after those that are shown.
  async after() {
    if (this.entries.reading) return
    this.entries.reading = true
    try {
      for (let more = true; more;) {
        const { entries } = await get(at('sessions', this.id, 'entries') + `?limit=${pageOfEntries}&after=${this.entries.last}`)
        this.log(entries)
        more = entries.length > 0 && (entries.length === pageOfEntries || this.entries.last < this.newest)
      }
    } finally { this.entries.reading = false }
  }

  // before reads the entries before those that are shown.
  async before() {
    const { list, first, more } = this.entries
    const from = Math.max(0, first - pageOfEntries)
    more.disabled = true
    try {
      const { entries } = await get(at('sessions', this.id, 'entries') + `?limit=${first - from}&after=${from}`)
      const { rows } = this.lines(entries, 0)
      list.prepend(...rows)
      this.entries.all.unshift(...entries)
      this.entries.first = from
      this.draw()
      this.allBefore()
    } catch (err) { this.tell(err) }
    more.disabled = false
  }

  // log adds entries at the end. Live ones may have come meanwhile.
  log(entries) {
    const fresh = entries.filter((e) => e.seq > this.entries.last)
    const { rows, time } = this.lines(fresh, this.entries.time)
    this.entries.list.append(...rows)
    this.entries.all.push(...fresh)
    this.entries.last = Math.max(this.entries.last, entries.at(-1)?.seq ?? 0)
    this.entries.time = time
    this.draw()
  }

  // draw draws the timeline of the entries that are shown, if it is open.
  draw() {
    if (this.entries.times.open) timeline(this.entries.when, this.entries.all)
  }

  // lines returns a row for each entry, with what it says once it is opened. Idle time is one line.
  lines(entries, time) {
    const rows = []
    for (const e of entries) {
      const now = new Date(e.at).getTime()
      if (time && now - time > 10_000) rows.push(h('p.gap', null, span((now - time) / 1000) + ' without entries'))
      time = now
      const row = h('details.entry', { ontoggle: () => {
        if (row.open && row.children.length === 1) {
          row.append(h('pre', null, json(e.events)), h('div.bar', null, h('button', { onclick: () => this.fork(e.seq) }, 'Fork after this entry')))
        }
      } }, h('summary', null, h('span.seq', null, e.seq), h('span.quiet.small.wide', null, new Date(e.at).toLocaleTimeString()), h('span', null, e.kinds.join(', ')), h('span.badge')))
      row.seq = e.seq
      rows.push(row)
    }
    this.badge(rows)
    return { rows, time }
  }

  // badge shows what the verdict says about each entry. Those that came after it have no badge.
  badge(rows) {
    const v = this.entries.verdict
    if (!v) return
    for (const row of rows.filter((r) => r.seq)) {
      const faults = v.faults.filter((f) => f.seq === row.seq)
      const proved = faults.length === 0 && row.seq <= v.through.seq
      fill(row.querySelector('.badge'),
        proved && h('span.tag.good', { title: 'verified: ' + v.level }, 'verified'),
        faults.map((f) => h('span.tag.bad', { title: f.what }, f.kind)))
    }
  }

  // verify has the whole journal audited.
  async verify(node) {
    const again = h('button', { onclick: () => this.verify(node).catch(this.tell) }, 'Verify again')
    fill(node, h('p.quiet', null, 'Verifying…'))
    const v = this.entries.verdict = (await get(at('sessions', this.id, 'verify'))).verdict
    this.badge([...this.entries.list.children])
    fill(node,
      h('p.bar', null, h('span.tag.' + (v.faults.length === 0 ? 'good' : 'bad'), null, v.faults.length === 0 ? 'verified: ' + v.level : 'broken'),
        h('span', null, `${v.entries} entries. `, v.faults.map((f) => `Entry ${f.seq}: ${f.kind}, ${f.what}. `)), again),
      h('details', null, h('summary.small.quiet', null, 'What is not proved'), h('ul.small', null, v.not_proved.map((x) => h('li', null, x)))))
  }

  // fork continues the session in a new one, from an entry, and shows that one.
  async fork(entry) {
    try {
      const { session } = await post(at('sessions', this.id, 'fork'), { entry })
      location.hash = '#/s/' + session
    } catch (err) { this.tell(err) }
  }
}

// toEnd shows the end of the page. How high rows are is known only once they are drawn.
function toEnd(frames = 3) {
  scrollTo(0, document.body.scrollHeight)
  if (frames > 0) requestAnimationFrame(() => toEnd(frames - 1))
}

const plain = (item) => (item.parts ?? []).map((p) => p.text ?? (p.media ? `[${p.name || p.media.modality || p.kind}]` : '')).filter(Boolean).join('\n')

// sender says who decided: a name that the server did not verify is a claim.
const sender = (user, claim) => !user ? claim + ' (claimed)' : !claim || claim === user ? user : `${user} (claims to be ${claim})`

const outputOf = (r) => (r.output ?? []).map((p) => p.text ?? (p.data !== undefined ? json(p.data) : `[${p.name || p.kind}]`)).join('\n')

// shown shows the arguments of a call, all of them: a change of a file as lines, a command as one would type it, and the
// others as JSON.
export function shown(call) {
  const input = call.input ?? {}
  const [names, picture] = drawn(input, call.tool ?? call.name)
  const others = Object.fromEntries(Object.entries(input).filter(([name]) => !names.includes(name)))
  if (!picture) return h('pre', null, visible(json(input)))
  return [h('pre', null, picture), Object.keys(others).length > 0 && h('pre', null, visible(json(others)))]
}

const mostLines = 5000 // that have an element each: more of them would stop the browser

// split returns the lines of a text. A newline at its end does not begin another line.
function split(text) {
  const all = text.split('\n')
  if (all.at(-1) === '') all.pop()
  return all
}

const tones = { '+': 'line-add', '-': 'line-del' }

// drawn returns the arguments that it shows in another way than as JSON, and how.
function drawn(input, tool) {
  const has = (...names) => names.every((name) => typeof input[name] === 'string')
  const rows = (all, tone = (line) => tones[line[0]] ?? 'line') =>
    all.length > mostLines ? visible(all.join('\n') + '\n') : all.map((line) => h('span.' + tone(line), null, visible(line) + '\n'))
  const open = (text) => text !== '' && !text.endsWith('\n')
  if (has('patch')) return [['patch'], rows(split(input.patch))]
  if (has('path', 'old', 'new')) {
    const differ = open(input.old) !== open(input.new)
    const side = (sign, text) => [rows(split(text).map((line) => sign + line)), differ && open(text) && h('span.quiet', null, '\\ no newline at the end\n')]
    return [['path', 'old', 'new'], [visible(input.path), '\n', side('-', input.old), side('+', input.new)]]
  }
  if (has('path', 'content')) { // what is in the file now is not known here
    const all = split(input.content)
    const size = (all.length === 1 ? '1 line' : all.length + ' lines') + (open(input.content) ? ', no newline at the end' : '')
    return [['path', 'content'], [visible(input.path), '\n', h('span.quiet', null, `${tool === 'fs_write_file' ? 'writes the whole file' : 'content'}: ${size}\n`), h('span.whole', null, rows(all, () => 'line'))]]
  }
  if (Array.isArray(input.argv) && input.argv.length > 0 && input.argv.every((a) => typeof a === 'string')) {
    return [['argv'], visible('$ ' + input.argv.map((a) => /^[\w./=:@%+,-]+$/.test(a) ? a : JSON.stringify(a)).join(' '))]
  }
  return [[]]
}

// visible shows as escapes what a person could not see: characters without width, those that reorder others, and those that
// only look like a space.
export function visible(text) {
  return text.replace(/[^\P{C}\n\t]|[^\P{Z} ]|[\p{Default_Ignorable_Code_Point}\u2800]/gu, (c) => '\\u' + (c.length === 1 ? c.charCodeAt(0).toString(16).padStart(4, '0') : `{${c.codePointAt(0).toString(16)}}`))
}
