// What was used: by day, and by model, agent and person.
import { get } from './api.js'
import { clip, fill, h, money } from './dom.js'

const periods = [[7, '7 days'], [30, '30 days'], [90, '90 days'], [0, 'all days']]

const numbers = (u) => [u.turns, u.usage.input_tokens, u.usage.output_tokens].map((n) => h('td.number', null, n.toLocaleString('en')))

const table = (label, words, more, rows) => h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': label }, h('table', null,
  h('thead', null, h('tr', null, words.map((t) => h('th', null, t)), [...more, 'Turns', 'Tokens in', 'Tokens out', 'Cost'].map((t) => h('th.number', null, t)))), h('tbody', null, rows)))

// usage shows what was used on a day, or in a period that is chosen, and returns what does so again.
export function usage(view, day) {
  const period = h('select', { 'aria-label': 'Period' }, periods.map(([n, text]) => h('option', { value: n, selected: n === 30 }, text)))
  const shown = h('div')
  const show = async () => {
    const q = new URLSearchParams(day ? { from: day, to: day } : {})
    const n = Number(period.value)
    if (!day && n > 0) q.set('from', new Date(Date.now() - (n - 1) * 86400e3).toISOString().slice(0, 10))
    const { usage, days } = await get('/api/usage?' + q)
    const costs = days.some((d) => d.usage.cost_micros > 0)
    const size = (d) => costs ? d.usage.cost_micros : d.usage.input_tokens + d.usage.output_tokens
    const selected = shown.querySelector('.selected')?.dataset.id
    const most = Math.max(1, ...days.map(size))
    const bar = (d) => {
      const part = h('span')
      part.style.width = 100 * size(d) / most + '%'
      return h('div.track', { 'aria-hidden': true }, size(d) > 0 && part)
    }
    fill(shown, usage.length === 0 && h('p.quiet', null, 'Nothing was used then.'),
      !day && days.length > 0 && [h('h2', null, 'By day'), table('Usage by day', ['Day'], ['Sessions'], days.map((d) => h('tr', {
        'data-row': true, 'data-id': d.day, 'data-href': d.day && '#/usage/' + d.day, class: d.day === selected ? 'selected' : null,
      }, h('td', null, d.day ? h('a', { href: '#/usage/' + d.day }, d.day) : 'earlier', bar(d)), h('td.number', null, d.sessions), numbers(d), h('td.number', null, money(d.usage)))))],
      usage.length > 0 && [h('h2', null, 'By model, agent and person'), table('Usage by model, agent and person', ['Model', 'Agent', 'Person'], ['Sessions'], usage.map((u) => h('tr', null,
        h('td', null, clip(u.model, 40)), h('td', null, u.agent ?? ''), h('td', null, u.owner ?? ''), h('td.number', null, u.sessions), numbers(u), h('td.number', null, money(u.usage)))))],
      h('p.small.quiet', null, `Days are in UTC. ${day ? '' : costs ? 'Bars compare costs. ' : 'Bars compare tokens. '}What a sub-agent used counts once, in its own session. A cost is shown where the provider or the price list of the model gave one.`))
  }
  period.addEventListener('change', () => show().catch(() => {}))
  fill(view, h('h1', null, day ? 'Usage on ' + day : 'Usage'), h('div.bar', null, day ? h('a', { href: '#/usage' }, 'All days') : period), shown)
  return show
}
