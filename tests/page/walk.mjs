// The walk through the page: node walk.mjs ADDRESS TOKEN FOLDER. It prints a line with what it needs done and waits for
// an answer on stdin, and ends with an error at the first thing that is wrong. Screenshots go to the folder.
import assert from 'node:assert/strict'
import { address, browser, broken, page, please, see, token, wide } from './browser.mjs'

// A browser without a token is asked for it, and keeps it out of the address.
await page.goto(address)
await see('token')
await page.fill('#token', token)
await page.click('button')
await page.waitForSelector('article')
assert.equal(new URL(page.url()).search, '')

// The inbox shows what will be done. The keyboard suffices to deny it with a reason.
await see('inbox')
assert.match(await page.textContent('article'), /\$ sh -c "echo hi"/)
await page.click('article summary:has-text("History and context")')
await page.waitForFunction(() => document.querySelector('article details').textContent.includes('user: Go'))
assert.match(await page.textContent('article details'), /Who asked/)
await see('context')
await page.keyboard.press('j')
await page.keyboard.press('d')
await page.keyboard.type('not today')
await page.click('article button.main:has-text("Deny")')
await page.waitForSelector('text=Nothing waits for a decision')

// The one who approves sees every argument, and characters that would hide or reorder others.
const shows = (call) => page.evaluate(async (call) => {
  const { shown } = await import('/page/session.js')
  const { fill } = await import('/page/dom.js')
  const node = document.createElement('div')
  fill(node, shown(call))
  return node.innerText
}, call)
for (const [input, ...texts] of [
  [{ path: 'a.go', old: 'x', new: 'y', all: true }, 'a.go', '-x', '+y', '"all": true'],
  [{ path: 'a.go', content: 'y', delete: true }, 'a.go\ncontent: 1 line, no newline at the end\ny\n', '"delete": true'],
  [{ patch: '*** Begin Patch\n-x\n+y', versions: { 'a.go': '1' } }, '-x', '+y', '"versions"'],
  [{ argv: ['sh', '-c', 'echo hi'], dir: '/etc' }, '$ sh -c "echo hi"', '"dir": "/etc"'],
  [{ path: 'a.go', old: 1, new: 'y' }, '"old": 1', '"new": "y"'],
  [{ argv: ['rm', 1] }, '"rm"'],
  [['a', 'list'], '"list"'],
  [{}, '{}'],
  [{ argv: ['rm', 'safe\u202etxt.'] }, 'safe\\u202etxt.'],
  [{ note: 'a\u200bb\u2066' }, 'a\\u200bb\\u2066'],
  [{ argv: ['rm', 'a\u00a0b\u3164\u2800'] }, 'a\\u00a0b\\u3164\\u2800'],
  [{ path: 'long', content: 'x\n'.repeat(100_000) + 'end' }, 'content: 100001 lines', 'x\nend'],
]) {
  const got = await shows({ input })
  for (const text of texts) assert.ok(got.includes(text), `${JSON.stringify(input)} is shown as ${got}, without ${text}`)
}

// A file that is written as a whole is no change of lines: the page does not know what was in it. A newline at the end is no line.
for (const [tool, input, want] of [
  ['fs_write_file', { path: 'a.go', content: '+x\ny\n' }, 'a.go\nwrites the whole file: 2 lines\n+x\ny\n'],
  ['fs_write_file', { path: 'a.go', content: '' }, 'a.go\nwrites the whole file: 0 lines\n'],
  ['fs_replace_in_file', { path: 'a.go', old: 'x\n', new: 'y\nz\n' }, 'a.go\n-x\n+y\n+z\n'],
  ['fs_replace_in_file', { path: 'a.go', old: 'x', new: 'x\n' }, 'a.go\n-x\n\\ no newline at the end\n+x\n'],
]) assert.equal(await shows({ tool, input }), want)

// Numbers are those that the tool gets, also when the arguments are edited.
for (const text of ['9007199254740993', '-1e400', '0.12345678901234567890', '1e-400', '42']) {
  const got = await page.evaluate(async (text) => {
    const [{ parse }, { json }] = [await import('/page/api.js'), await import('/page/dom.js')]
    const shown = json(parse(`{"n":${text}}`))
    return [shown, JSON.stringify(parse(shown))]
  }, text)
  assert.deepEqual(got, [`{\n  "n": ${text}\n}`, `{"n":${text}}`])
}

// No text of a model stops the browser.
assert.ok(await page.evaluate(async () => {
  const { markdown } = await import('/page/markdown.js')
  const from = performance.now()
  for (const text of ['>'.repeat(20_000), ('['.repeat(4998) + '\n\n').repeat(39)]) markdown(text)
  return performance.now() - from < 1000
}))

// The session says so. What a model wrote as HTML is text.
await page.goto(address + '#/sessions')
await page.waitForSelector('tbody tr')
await see('sessions')
await page.keyboard.press('j')
await page.focus('button:has-text("Start")')
await page.keyboard.press('Enter') // of the button, not of the row
assert.equal(new URL(page.url()).hash, '#/sessions')
await page.keyboard.press('Escape')
await page.keyboard.press('Enter')
await page.waitForSelector('.talk strong:has-text("bold")')
assert.match(await page.textContent('.talk'), /<img src=x onerror=alert\(1\)>/)
assert.match(await page.textContent('details.call'), /denied/)
await page.click('details.call summary')
await page.click('text=Explain this call')
await page.waitForFunction(() => document.querySelector('details.call').textContent.includes('not today'))
await see('session')

// An approval in the session, with other arguments.
await page.keyboard.press('/')
await page.keyboard.type('again')
await page.keyboard.press('Control+Enter')
await page.waitForSelector('.talk ~ section article') // where the conversation has stopped
assert.equal(await page.locator('article button:has-text("Later")').count(), 0)
await page.click('article button:has-text("Edit")')
await page.fill('article textarea', '{"argv":["sh","-c","echo edited"]}')
await page.click('text=Approve with these')
await page.waitForSelector('details.call .tag.good')
await page.click('details.call > summary >> nth=-1')
await page.waitForFunction(() => document.querySelector('.talk').textContent.includes('edited'))

// The conversation shows what ran, who changed it, and what the model asked for. It still does when it is read again.
for (const read of [false, true]) {
  if (read) await page.reload()
  const ran = page.locator('details.call', { hasText: 'changed by turnlog' })
  await ran.waitFor()
  assert.equal(await ran.count(), 1)
  assert.match(await ran.locator('> summary').textContent(), /echo edited/)
  if (read) await ran.locator('> summary').click()
  assert.equal(await ran.locator('> pre').first().textContent(), '$ sh -c "echo edited"')
  await ran.locator('summary:has-text("What the model asked for")').click()
  assert.equal(await ran.locator('details > pre').textContent(), '$ sh -c "echo two"')
  await see(read ? 'changed-again' : 'changed')
}

// A long name, or one with characters that nobody sees, does not hide that it is claimed.
await page.route('**/transcript*', async (route) => {
  const response = await route.fetch()
  const json = await response.json()
  for (const c of Object.values(json.changed)) c.by = 'alice' + '\u00a0'.repeat(1000) + ' (claimed)'
  await route.fulfill({ response, json })
})
await page.reload()
const claimed = page.locator('details.call .tag.warn:has-text("changed by alice")')
await claimed.waitFor()
assert.match(await claimed.textContent(), /^changed by alice\\u00a0.{100,200} \(claimed\)$/)
await page.unroute('**/transcript*')
await page.reload()
await page.waitForSelector('details.call .tag.warn:has-text("changed by turnlog")')

// A call that takes too long is cancelled, and its turn goes on.
await page.keyboard.press('/')
await page.keyboard.type('slowly')
await page.keyboard.press('Control+Enter')
await page.click('article button:has-text("Approve")')
await page.waitForSelector('.running:has-text("shell_exec") button:has-text("To the background")')
await see('running')
await page.click('.running button:has-text("Cancel the call")')
await page.waitForSelector('.talk .text:has-text("That was cancelled.")')
await page.waitForFunction(() => document.querySelector('.running') === null)

// A file goes along with a message, and one that was chosen by mistake does not.
await page.setInputFiles('.compose input[type=file]', ['note.txt', 'wrong.txt'].map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from('see me') })))
await page.click('[aria-label="Leave out wrong.txt"]')
await page.fill('.compose textarea', 'look at this')
await see('attached')
await page.click('.compose button:has-text("Send")')
await page.waitForSelector('.user:has-text("look at this"):has-text("[note.txt]")')
await page.waitForSelector('.talk .text:has-text("You said")')
assert.equal(await page.locator('.files button').count(), 0)
assert.ok(!(await page.textContent('.talk')).includes('wrong.txt'))

// The gateway dies and comes back while input arrives: nothing is missing, nothing twice.
await please('stop the gateway')
await page.waitForSelector('#notice:has-text("Not connected")')
await please('send the text meanwhile')
await please('start the gateway')
await page.waitForFunction(() => [...document.querySelectorAll('.user')].some((x) => x.textContent === 'meanwhile'))
await page.waitForFunction(() => [...document.querySelectorAll('.talk .text')].filter((x) => x.textContent.includes('You said meanwhile')).length === 1)
assert.equal(await page.locator('.user', { hasText: 'meanwhile' }).count(), 1)

// A gateway that does not know the place where the page was, as after a restore, has it read the session again.
let place
await page.route('**/events?*', (route) => {
  place ??= route.request().url()
  return route.request().url() === place ? route.fulfill({ status: 409 }) : route.continue()
})
await page.reload()
await page.waitForSelector('#notice:has-text("Not connected")')
await please('send the text restored')
await page.waitForFunction(() => [...document.querySelectorAll('.user')].some((x) => x.textContent === 'restored'))
await page.unroute('**/events?*')

// The inbox says that, too, and no longer than it is true.
await page.goto(address + '#/inbox')
await page.waitForSelector('text=Nothing waits for a decision')
await please('stop the gateway')
await page.waitForSelector('#notice:has-text("does not answer")')
await please('start the gateway')
await page.waitForSelector('#notice', { state: 'hidden' })
await page.goto(address + '#/s/walk')

// The journal, with its verdict.
await page.click('button:has-text("Journal")')
await page.waitForSelector('.tag:has-text("verified: chain")')
assert.equal(await page.locator('.entry .badge .tag.good').count(), await page.locator('.entry').count())
await see('journal')
await page.click('summary:has-text("Timeline")')
await page.waitForSelector('.spans li:has-text("question about shell_exec")')
assert.match(await page.textContent('.spans'), /driven by node .*model, round 1.*shell_exec .*model, round 2/s)
await page.evaluate(() => scrollTo(0, 0))
await see('timeline')
await page.click('summary:has-text("Timeline")')

// A fork of the session begins with its history.
await page.click('details.entry summary >> nth=-2')
await page.click('details.entry[open] button:has-text("Fork after this entry")')
await page.waitForFunction(() => location.hash.startsWith('#/s/') && location.hash !== '#/s/walk')
await page.waitForSelector('.talk')
await see('fork')

// A turn that failed says why.
await please('fail a turn')
await page.goto(address + '#/s/fails')
await page.waitForSelector('p:has(.tag:text-is("error")):has-text("no such luck")')
await see('failed')

await please('leave a call without a worker')
for (const view of ['fleet', 'usage']) {
  await page.goto(`${address}#/${view}`)
  await page.waitForSelector('main td')
  if (view === 'usage') await page.waitForSelector('[aria-label="Usage by day"] a')
  if (view === 'fleet') await page.waitForSelector('[aria-label="Queues"] td:has-text("default")')
  if (view === 'fleet') await page.waitForSelector('[aria-label="Queues"] .tag:has-text("no worker for this queue")')
  if (view === 'fleet') await page.waitForSelector('.card:has-text("queue-unattended"):has-text("tool-worker --queue gpu")')
  await see(view)
}

// A phone, at night: nothing is wider than the screen.
const narrow = await browser.newContext({ viewport: { width: 390, height: 780 }, colorScheme: 'dark', storageState: await wide.storageState() })
const phone = await narrow.newPage()
for (const [view, sign] of [['sessions', 'tbody tr'], ['s/walk', '.talk .user'], ['inbox', 'h1'], ['fleet', 'td'], ['usage', 'td']]) {
  await phone.goto(`${address}#/${view}`)
  await phone.waitForSelector(sign)
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), view + ' is wider than the screen')
  await see('phone-' + view.replace('/', '-'), phone)
}
assert.deepEqual(broken, [])
await browser.close()
process.exit(0)
