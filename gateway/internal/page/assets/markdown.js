// The Markdown that models write, as elements: headings, lists, quotes, code, emphasis, links to the web. It is text of
// strangers, so everything else stays the text that it is.
import { h } from './dom.js'

const inline = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^[\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')\]]+)/g

// most is how long a block may be that has marks within. The search for them takes a time that grows faster than the text.
const most = 5000

function words(text) {
  if (text.length > most) return [text]
  const out = []
  let at = 0
  for (const m of text.matchAll(inline)) {
    out.push(text.slice(at, m.index))
    if (m[1]) out.push(h('code', null, m[2]))
    else if (m[3]) out.push(h('strong', null, words(m[3])))
    else if (m[4]) out.push(h('em', null, m[4]))
    else out.push(h('a', { href: m[6] ?? m[7], rel: 'noopener noreferrer nofollow', target: '_blank' }, m[5] ?? m[7]))
    at = m.index + m[0].length
  }
  out.push(text.slice(at))
  return out.filter((x) => x !== '')
}

// A text that is longer, or quotes within quotes that are deeper, is shown as it is.
const longest = 200_000
const deepest = 8

// markdown returns elements for a text.
export function markdown(text, depth = 0) {
  if (text.length > longest || depth > deepest) return [h('pre', null, text)]
  const lines = text.split('\n')
  const out = []
  for (let i = 0; i < lines.length;) {
    const line = lines[i]
    const fence = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line)
    const heading = /^(#{1,6})\s+(.*)/.exec(line)
    const item = /^\s*([-*+]|\d+[.)])\s+(.*)/.exec(line)
    if (fence) {
      const code = []
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[1]); i++) code.push(lines[i])
      i++
      out.push(h('pre', null, h('code', null, code.join('\n'))))
    } else if (heading) {
      out.push(h('h' + Math.min(6, heading[1].length + 2), null, words(heading[2])))
      i++
    } else if (item) {
      const list = h(/\d/.test(item[1]) ? 'ol' : 'ul', null)
      for (let m; i < lines.length && (m = /^\s*([-*+]|\d+[.)])\s+(.*)/.exec(lines[i])); i++) list.append(h('li', null, words(m[2])))
      out.push(list)
    } else if (line.startsWith('>')) {
      const quote = []
      for (; i < lines.length && lines[i].startsWith('>'); i++) quote.push(lines[i].replace(/^>\s?/, ''))
      out.push(h('blockquote', null, markdown(quote.join('\n'), depth + 1)))
    } else if (line.trim() === '') {
      i++
    } else {
      const block = []
      for (; i < lines.length && lines[i].trim() !== '' && !/^\s*(```|~~~|#{1,6}\s|[-*+]\s|\d+[.)]\s|>)/.test(lines[i]); i++) block.push(lines[i])
      if (block.length === 0) block.push(lines[i++])
      out.push(h('p', null, words(block.join('\n')).flatMap(breaks)))
    }
  }
  return out
}

// breaks keeps the ends of lines.
function breaks(part) {
  if (typeof part !== 'string') return [part]
  return part.split('\n').flatMap((line, n) => n === 0 ? [line] : [h('br'), line])
}
