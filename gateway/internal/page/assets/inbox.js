// What waits for people, in all sessions: approvals, and calls that lost their workers.
import { at, get, parse, post } from './api.js'
import { age, clip, fill, h, json } from './dom.js'
import { shown, visible } from './session.js'

const later = new Set() // what the person put aside in this tab: it stays pending

export async function inbox(view, tell, refresh) {
  const [{ approvals }, dead] = await Promise.all([get('/api/approvals'), get('/api/dead')])
  const waiting = approvals.length + dead.calls.length
  if (same(view, [approvals, dead, [...later]])) return waiting // what a person is writing stays
  const now = approvals.filter((a) => !later.has(a.session + a.id))
  const put = approvals.filter((a) => later.has(a.session + a.id))
  fill(view, h('h1', null, 'Inbox'),
    now.length + dead.calls.length + dead.aside.length === 0 && h('p.quiet', null, put.length > 0 ? 'Nothing else waits for a decision.' : 'Nothing waits for a decision.'),
    now.map((a) => card(a, tell, refresh, true)),
    dead.calls.length > 0 && h('h2', null, 'Calls that lost their workers'),
    dead.calls.map((c) => deadCard(c, tell, refresh)),
    dead.aside.length > 0 && h('h2', null, 'Sessions that no node drives'),
    dead.aside.map((s) => h('div.card', null, h('h2', null, h('a', { href: '#/s/' + s.session }, s.session)),
      h('p.small', null, `It broke ${s.broke.length} times: ${s.broke.join(', ')}. "turnlog dead retry ${s.session}" has it driven again.`))),
    put.length > 0 && [h('h2', null, 'Later'), put.map((a) => card(a, tell, refresh, true))])
  return waiting
}

const last = new WeakMap()

// same reports whether an element shows this already, and keeps it.
export function same(view, what) {
  const text = JSON.stringify(what)
  if (last.get(view) === text) return true
  last.set(view, text)
  return false
}

// card shows a pending approval, with what may be done about it. Only the inbox has a place for what is put aside.
export function card(a, tell, done, inInbox) {
  const name = a.session + a.id
  const node = h('article.card', { tabindex: -1, 'data-row': true, 'aria-label': `${a.tool} in ${a.title || a.session}` })
  const decide = (body) => act(node, tell, done, async () => {
    await post(at('approvals', a.session, a.id), { shown: a.digest, ...body })
    return body.decision === 'approve' ? `Approved: ${a.tool}` : `Denied: ${a.tool}`
  })
  const buttons = h('div.bar')
  const extra = h('div')
  const approve = h('button.main', { 'data-key': 'a', onclick: () => decide({ decision: 'approve' }) }, 'Approve')
  const ask = (label, value, text, make) => {
    const field = h('textarea', { rows: value ? 8 : 2, 'aria-label': label, class: value ? 'code' : null })
    field.value = value
    const send = h('button.main', { onclick: () => {
      try { decide(make(field.value)) } catch { tell(new Error('These arguments are not JSON: correct them')) }
    } }, text)
    fill(extra, h('label', null, label), field, h('div.bar', null, send, h('button', { onclick: () => fill(extra) }, 'Back')))
    field.focus()
  }
  if (a.may_decide) {
    buttons.append(approve,
      h('button', { onclick: () => ask('Arguments that the tool gets instead', json(a.input), 'Approve with these', (text) => ({ decision: 'approve', input: parse(text) })) }, 'Edit…'),
      h('button', { title: a.covers, onclick: () => decide({ decision: 'approve', always: true }), disabled: !a.covers }, 'Always'),
      h('button.bad', { 'data-key': 'd', onclick: () => ask('Reason, which the model sees', '', 'Deny', (reason) => ({ decision: 'deny', reason })) }, 'Deny…'),
      inInbox ? h('button', { 'data-key': 'l', onclick: () => { later.has(name) ? later.delete(name) : later.add(name); done() } }, later.has(name) ? 'Back to the inbox' : 'Later') : '')
  } else {
    buttons.append(h('span.quiet.small', null, 'Others decide this.'))
  }
  fill(node,
    h('h2', null, h('strong', null, visible(a.tool)), ' in ', h('a', { href: '#/s/' + a.session }, visible(a.title || a.session))),
    h('p.small.quiet', null, [visible(a.asks), a.agent && 'agent ' + a.agent, a.owner && 'opened by ' + a.owner, a.expires_at && 'expires ' + new Date(a.expires_at).toLocaleString()].filter(Boolean).join(' · ')),
    shown(a), a.covers && h('p.small.quiet', null, '"Always" covers ' + visible(a.covers) + '.'), buttons, extra, context(a, tell))
  ripen(node)
  return node
}

// act does what the buttons of a card are for, once, and says what was done.
async function act(node, tell, done, does) {
  document.activeElement?.blur()
  const idle = [...node.querySelectorAll('button:not(:disabled)')]
  for (const b of idle) b.disabled = true
  try { tell(await does()) } catch (err) {
    tell(err)
    for (const b of idle) b.disabled = false
  }
  dispatchEvent(new Event('decided'))
  done()
}

// recent is how many items of a transcript are shown before a question.
const recent = 8

// context shows what led to a question, once it is opened: the newest part of the transcript, and who asked for what.
function context(a, tell) {
  const inside = h('div')
  return h('details', { ontoggle: async () => {
    if (inside.childElementCount > 0) return
    try {
      const [{ items }, { text }] = await Promise.all([get(at('sessions', a.session, 'transcript') + '?limit=' + recent), get(at('sessions', a.session, 'calls', a.call))])
      const said = items.flatMap((i) => (i.parts ?? []).map((p) => `${i.kind}: ` + (p.text ?? (p.call ? `calls ${p.call.name}` : p.result ? `${p.result.name} ${p.result.status}` : `[${p.kind}]`))))
      fill(inside, h('pre', null, visible(said.map((line) => clip(line, 1000)).join('\n'))), h('pre', null, visible(text)))
    } catch (err) { tell(err) }
  } }, h('summary.small', null, 'History and context'), inside)
}

// ripen keeps the buttons of a card from being clicked before a person can have seen it: it may appear where another one was.
function ripen(node) {
  const idle = [...node.querySelectorAll('button:not(:disabled)')]
  for (const b of idle) b.disabled = true
  setTimeout(() => { for (const b of idle) b.disabled = false }, 500)
}

// deadCard shows a call that lost its workers, with what may be done about it.
function deadCard(c, tell, done) {
  const settle = (body) => act(node, tell, done, async () => {
    await post(at('dead', c.session, c.call), body)
    return body.action === 'retry' ? `Runs again: ${c.tool}` : `Dropped: ${c.tool}`
  })
  const repeats = c.effects !== 'read_only' && c.effects !== 'idempotent'
  const node = h('article.card', { tabindex: -1, 'data-row': true, 'aria-label': `${c.tool} in ${c.session}, without a result` },
    h('h2', null, h('strong', null, visible(c.tool)), ' in ', h('a', { href: '#/s/' + c.session }, c.session)),
    h('p.small.quiet', null, `Lost ${c.lost.length} of ${c.attempts} attempts` + (c.lost.length > 0 ? ', the last ' + age(c.lost.at(-1).at) + ' ago' : '') + '. ' + (repeats ? 'A retry may run it twice, and its tool does not declare that this is safe.' : 'Its tool declares that it may run twice.')),
    shown(c),
    h('div.bar', null, c.may_decide ? [h('button', { onclick: () => settle({ action: 'retry', may_repeat: repeats }) }, 'Retry'),
      h('button.bad', { onclick: () => settle({ action: 'drop' }) }, 'Drop')] : h('span.quiet.small', null, 'Others decide this.')))
  ripen(node)
  return node
}
