// Elements from data. Strings only ever become text: nothing here parses HTML.

// h returns an element with attributes and children; null and false children are left out.
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split('.')
  const node = document.createElement(name)
  if (classes.length > 0) node.className = classes.join(' ')
  if (name === 'pre') node.tabIndex = 0 // a long one scrolls, also with the keyboard
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value)
    else if (key.startsWith('aria-') && value != null) node.setAttribute(key, String(value))
    else if (value === true) node.setAttribute(key, '')
    else if (value !== false && value != null) node.setAttribute(key, String(value))
  }
  node.append(...children.flat(Infinity).filter((c) => c != null && c !== false))
  return node
}

// fill replaces what an element has.
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c != null && c !== false))
}

const ages = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']]

// age says how long ago a time was.
export function age(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000)
  for (const [size, unit] of ages) {
    if (seconds >= size) return Math.floor(seconds / size) + unit
  }
  return 'now'
}

// span says how long something took, in seconds.
export function span(seconds) {
  if (seconds < 1) return Math.round(seconds * 1000) + ' ms'
  if (seconds < 90) return seconds.toFixed(1) + ' s'
  for (const [size, unit] of ages) {
    if (seconds >= 2 * size) return Math.round(seconds / size) + ' ' + unit
  }
  return Math.round(seconds) + ' s'
}

// json shows a value over several lines.
export function json(value) { return JSON.stringify(value, null, 2) }

// clip cuts a text.
export function clip(text, most) { return text.length > most ? text.slice(0, most) + '…' : text }

// ends cuts a text in its middle: what a name claims may be at its end.
export function ends(text, most) { return text.length > 2 * most ? text.slice(0, most) + '…' + text.slice(-most) : text }

// money shows millionths of a currency, all of them.
export function money(usage) {
  return usage.cost_micros ? (usage.cost_micros / 1e6).toFixed(6).replace(/0{1,4}$/, '') + ' ' + usage.currency : '–'
}
