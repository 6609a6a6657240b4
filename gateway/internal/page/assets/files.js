// Files that go along with a message.
import { upload } from './api.js'
import { fill, h } from './dom.js'

// attach returns a row of buttons and names for files: chosen, dropped on a field, or pasted into it. stored uploads them and
// returns what the message says about them.
export function attach(field, tell) {
  let files = []
  const names = h('span.files')
  const chooser = h('input', { type: 'file', multiple: true, hidden: true, 'aria-label': 'Files', onchange: () => { add(chooser.files); chooser.value = '' } })
  const show = () => fill(names, files.map((f) => h('button.tag', { type: 'button', title: 'Leave this file out', 'aria-label': 'Leave out ' + f.name, onclick: () => { files = files.filter((o) => o !== f); show() } }, f.name + ' ×')))
  const add = (more) => {
    const fit = [...more].filter((f) => f.size > 0)
    if (fit.length < more.length) tell(new Error('An empty file is left out'))
    files = [...files, ...fit]
    show()
  }
  field.addEventListener('dragover', (e) => { if (e.dataTransfer.types.includes('Files')) e.preventDefault() })
  field.addEventListener('drop', (e) => {
    if (e.dataTransfer.files.length === 0) return
    e.preventDefault()
    add(e.dataTransfer.files)
  })
  field.addEventListener('paste', (e) => {
    if (e.clipboardData.files.length === 0) return
    e.preventDefault()
    add(e.clipboardData.files)
  })
  const known = new Map() // what is stored already: a second try sends it as it was
  return {
    row: [h('button', { type: 'button', onclick: () => chooser.click() }, 'Attach…'), chooser, names],
    empty: () => files.length === 0,
    stored: async () => Promise.all(files.map(async (f) => {
      if (!known.has(f)) known.set(f, await upload(f))
      return known.get(f)
    })),
    clear: () => { files = []; show() },
  }
}
