// The page: its views by address, keys, and what waits.
import { get, key, post } from './api.js'
import { age, clip, fill, h, money, span } from './dom.js'
import { attach } from './files.js'
import { inbox } from './inbox.js'
import { open } from './session.js'
import { usage } from './usage.js'

const main = document.getElementById('main')
const notice = document.getElementById('notice')
const pollEvery = 4000
const pageOfSessions = 100

let leave = () => {} // ends the view
let me = {}

// tell shows what happened, or an error.
function tell(what) {
  notice.hidden = !what
  notice.className = what instanceof Error ? 'bad' : ''
  notice.textContent = what instanceof Error ? what.message : what
}

// repeat runs a function now and again while the page is seen, and returns how to end that. An error is shown until it is over.
function repeat(run) {
  let over = false, timer, failed
  const next = async () => {
    clearTimeout(timer)
    if (!document.hidden) try {
      await run()
      if (failed && notice.textContent === failed.message) tell('')
      failed = null
    } catch (err) {
      failed = err
      if (!over) tell(err)
    }
    if (!over) timer = setTimeout(next, pollEvery)
  }
  next()
  return () => { over = true; clearTimeout(timer) }
}

const busy = (view) => view.contains(document.activeElement) && ['TEXTAREA', 'INPUT', 'SELECT'].includes(document.activeElement.tagName)

const views = {
  inbox: (view) => {
    const show = async () => { if (!busy(view)) count(await inbox(view, tell, show)) }
    return repeat(show)
  },

  sessions: (view) => {
    const field = (label, more) => h('input', { 'aria-label': label, placeholder: label, size: 10, ...more })
    const filters = {
      search: field('Search', { type: 'search', placeholder: 'Title or ID', 'data-focus': true, size: 16 }),
      text: field('Text', { type: 'search', placeholder: 'What was said', size: 16 }),
      state: h('select', { 'aria-label': 'State' }, ['', 'working', 'approval', 'idle', 'closed', 'aside'].map((s) => h('option', { value: s }, s || 'every state'))),
      agent: field('Agent'), tool: field('Tool'), owner: field('Person'),
      cost: field('Cost', { type: 'number', min: 0, step: 'any', placeholder: 'Cost from', size: 8 }),
      sort: h('select', { 'aria-label': 'Order' }, [['age', 'latest first'], ['cost', 'dearest first'], ['tokens', 'most tokens first'], ['turns', 'most turns first']].map(([v, t]) => h('option', { value: v }, t))),
    }
    const rows = h('tbody')
    const pages = h('div.bar')
    let skips = [0] // of the parts so far
    let asked = 0
    const show = async () => {
      const q = new URLSearchParams({ limit: pageOfSessions, skip: skips.at(-1) })
      for (const [name, f] of Object.entries(filters)) if (f.value.trim()) q.set(name, f.value.trim())
      const mine = ++asked
      const { sessions, total, next } = await get('/api/sessions?' + q)
      if (mine !== asked) return // the filters have changed since
      const selected = rows.querySelector('.selected')?.dataset.id
      fill(rows, sessions.map((s) => h('tr', { 'data-row': true, 'data-id': s.session, 'data-href': '#/s/' + s.session, class: s.session === selected ? 'selected' : null },
        h('td', null, h('span.tag.' + s.state, null, s.state)),
        h('td.title', null, h('a', { href: '#/s/' + s.session }, s.title || s.session)),
        h('td.wide.small', null, s.agent?.name ?? ''), h('td.wide.small', null, clip(s.model, 30)), h('td.wide.small', null, s.owner ?? ''),
        h('td.number.wide', null, s.turns), h('td.number.wide', null, s.usage.input_tokens + s.usage.output_tokens), h('td.number.wide', null, money(s.usage)),
        h('td.number', null, age(s.changed_at)))))
      const go = (text, to) => h('button', { onclick: () => { skips = to; show().then(() => scrollTo(0, 0)).catch(tell) } }, text)
      const place = skips.at(-1)
      const searched = `${sessions.length} found, searched from session ${place + 1} ` + (next ? 'to ' + next : 'to the last one')
      fill(pages,
        h('span.quiet.small', null, total === 0 ? 'No session is like that.' : total === undefined ? searched : `${place + 1} to ${place + sessions.length} of ${total}`),
        skips.length > 1 && go('Back', skips.slice(0, -1)), next && go(filters.text.value.trim() ? 'Search on' : 'Next', [...skips, next]))
    }
    let soon
    for (const f of Object.values(filters)) f.addEventListener('input', () => {
      clearTimeout(soon)
      skips = [0]
      soon = setTimeout(() => show().catch(tell), 200)
    })
    fill(view, h('h1', null, 'Sessions'), starter(), h('div.bar', null, Object.values(filters)),
      h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Table' }, h('table', null, h('thead', null, h('tr', null, ['State', 'Title'].map((t) => h('th', null, t)), ['Agent', 'Model', 'Person'].map((t) => h('th.wide', null, t)),
        ['Turns', 'Tokens', 'Cost'].map((t) => h('th.number.wide', null, t)), h('th.number', null, 'Age'))), rows)), pages)
    return repeat(async () => { if (rows.childElementCount === 0 || !filters.text.value.trim()) await show() }) // texts are searched once
  },

  fleet: (view) => {
    const stuck = h('div')
    let asked = 0
    const examine = async () => {
      asked = Date.now()
      const { findings } = await get('/api/stuck').catch((err) => ({ findings: [], err })) // why it is not known stands where the queues are
      fill(stuck, findings.length > 0 && h('h2', null, 'What is stuck'), findings.map((f) => h('div.card', null, h('h2', null, h(f.severity === 'error' ? 'span.tag.bad' : 'span.tag.warn', null, f.check), ' ', f.what),
        h('p.small', null, 'Why it matters: ', f.why, '.'), h('p.small', null, 'What to do: ', h('code', null, f.do)),
        f.sessions?.length > 0 && h('p.small', null, 'Sessions: ', f.sessions.map((s) => [h('a', { href: '#/s/' + s }, s), ' '])))))
    }
    return repeat(async () => {
      const examined = me.role === 'operator' && Date.now() - asked > 30_000 ? examine() : null
      await fleet(view, stuck)
      await examined
    })
  },

  usage: (view, day) => repeat(usage(view, day)),
}

// many says how many there are of something.
const many = (n, one, more) => `${n} ${n === 1 ? one : more}`

// fleet shows what the deployment has and does, with what is stuck.
async function fleet(view, stuck) {
  const [workers, agents, models, dead, load] = await Promise.all([get('/api/workers').catch(() => ({ workers: [] })), get('/api/agents'), get('/api/models'), get('/api/dead'),
    me.role === 'operator' ? get('/api/queues').catch((err) => ({ err })) : null])
  fill(view, h('h1', null, 'Fleet'),
    load?.queues && [
      h('h2', null, 'Nodes'),
      h('p', null, load.nodes === 0 && [h('span.tag.warn', null, 'no node'), ' '], `${many(load.nodes, 'node drives', 'nodes drive')} ${many(load.sessions.driven, 'session', 'sessions')}. ` +
        `${many(load.sessions.waiting, 'session waits', 'sessions wait')} for a node, ${load.sessions.aside} set aside, ${load.sessions.parked} need no node now.`),
      h('h2', null, 'Queues'),
      h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Queues' }, h('table', null,
        h('thead', null, h('tr', null, h('th', null, 'Queue'), ['Waiting', 'Oldest', 'Running', 'Workers', 'Wanted'].map((t) => h('th.number', null, t)))),
        h('tbody', null, load.queues.map((q) => h('tr', null,
          h('td', null, q.queue, q.waiting > 0 && q.workers === 0 && [' ', h('span.tag.warn', null, 'no worker for this queue')]), h('td.number', null, q.waiting),
          h('td.number', null, q.waiting > 0 ? span(q.oldest_wait_seconds) : ''), h('td.number', null, q.running), h('td.number', null, q.workers), h('td.number', null, q.wanted_workers)))))),
    ],
    load?.err && h('p.small.quiet', null, load.err.message),
    dead.aside.length + dead.calls.length > 0 && h('p', null, h('span.tag.warn', null, 'stuck'), ' ', h('a', { href: '#/inbox' }, `${many(dead.calls.length, 'call', 'calls')} and ${many(dead.aside.length, 'session', 'sessions')}`), ' need a decision.'),
    stuck,
    h('h2', null, 'Workers'),
    workers.workers.length === 0 && h('p', null, h('span.tag.warn', null, 'no worker'), ' Calls of tools wait until one starts: "tool-worker". A node with --tools runs those itself.'),
    h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Table' }, h('table', null, h('thead', null, h('tr', null, h('th', null, 'Queue'), h('th', null, 'Worker'), h('th', null, 'Tools'))),
      h('tbody', null, workers.workers.map((w) => h('tr', null, h('td', null, w.queue), h('td.small', null, w.worker), h('td.small', null, w.tools.filter((t) => t !== 'turnlog_gate').join(', '))))))),
    h('h2', null, 'Agents'), agents.agents.length === 0 ? h('p.quiet', null, 'None is published. "turnlog agents publish FILE" publishes one.')
      : h('ul', null, agents.agents.map((a) => h('li', null, h('strong', null, a.name), ' ', h('span.quiet.small', null, a.version), ' ', a.description ?? ''))),
    h('h2', null, 'Models'), h('p', null, 'Default: ', h('code', null, models.default)), h('p.small.quiet', null, models.providers.map((p) => p.usage).join(' · ')),
    h('p.small.quiet', null, '"turnlog doctor" also examines streams, clocks and permissions.'))
}

// starter opens a session with a first message.
function starter() {
  if (me.role === 'viewer') return null
  const text = h('textarea', { rows: 2, 'aria-label': 'First message', placeholder: 'Start a session: what should be done?' })
  const agent = h('input', { 'aria-label': 'Agent of the new session', placeholder: 'Agent', size: 12 })
  const model = h('input', { 'aria-label': 'Model of the new session', placeholder: 'Model (default)', size: 18 })
  let name = key() // a retry opens no second session
  const files = attach(text, tell)
  return h('form.card', { onsubmit: async (e) => {
    e.preventDefault()
    if (!text.value.trim() && files.empty()) return
    try {
      const body = { text: text.value.trim(), files: await files.stored() }
      if (agent.value.trim()) body.agent = agent.value.trim()
      if (model.value.trim()) body.model = model.value.trim()
      const opened = await post('/api/sessions', body, name)
      name = key()
      location.hash = '#/s/' + opened.session
    } catch (err) { tell(err) }
  } }, text, h('div.bar', null, h('button.main', null, 'Start'), agent, model, files.row))
}

const waiting = document.getElementById('waiting')

function count(n) {
  waiting.hidden = n === 0
  waiting.textContent = n
  waiting.setAttribute('aria-label', n + ' waiting')
  document.title = (n > 0 ? `(${n}) ` : '') + 'Turnlog'
}

async function route() {
  leave()
  leave = () => {}
  tell('')
  const [name, id] = location.hash.replace(/^#\//, '').split('/')
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === '#/' + (name === 's' ? 'sessions' : name || 'inbox')) a.setAttribute('aria-current', 'page')
    else a.removeAttribute('aria-current')
  }
  const view = h('div')
  fill(main, view)
  if (name !== 's') {
    leave = (views[name] ?? views.inbox)(view, decodeURIComponent(id ?? ''))
    return
  }
  let gone = false
  leave = () => { gone = true }
  try {
    const stop = await open(view, decodeURIComponent(id ?? ''), tell)
    if (gone) stop()
    else leave = stop
  } catch (err) { tell(err) }
}

let prefix = ''

function move(by) {
  const rows = [...main.querySelectorAll('[data-row]')]
  const from = rows.findIndex((r) => r.classList.contains('selected'))
  const to = rows[Math.min(rows.length - 1, Math.max(0, from + by))]
  rows.forEach((r) => r.classList.toggle('selected', r === to))
  to?.scrollIntoView({ block: 'nearest' })
}

addEventListener('keydown', (e) => {
  if (e.key === 'Escape') document.activeElement?.blur()
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]') || ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.target.tagName)) return
  const row = main.querySelector('.selected')
  const go = { gi: 'inbox', gs: 'sessions', gf: 'fleet', gu: 'usage' }[prefix + e.key]
  prefix = e.key === 'g' ? 'g' : ''
  if (go) location.hash = '#/' + go
  else if (e.key === 'j') move(1)
  else if (e.key === 'k') move(-1)
  else if (e.key === '?') document.getElementById('help').showModal()
  else if (e.key === '/') main.querySelector('[data-focus]')?.focus()
  else if (e.key === 'Enter' && row?.dataset.href && !['A', 'BUTTON', 'SUMMARY'].includes(e.target.tagName)) location.hash = row.dataset.href
  else if (['a', 'd', 'l'].includes(e.key)) row?.querySelector(`[data-key=${e.key}]`)?.click()
  else return
  e.preventDefault()
})

addEventListener('hashchange', route)

try {
  me = await get('/api/me')
  document.getElementById('who').textContent = `${me.name} (${me.role})`
  document.getElementById('leave').hidden = !me.may_leave
} catch (err) { tell(err) }
route()

// look counts what waits, in every view.
async function look() {
  const [{ approvals }, dead] = await Promise.all([get('/api/approvals'), get('/api/dead')])
  count(approvals.length + dead.calls.length)
}
addEventListener('decided', () => look().catch(tell))
repeat(async () => { if (location.hash && location.hash !== '#/inbox') await look() })
