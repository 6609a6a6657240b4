// Many sessions, and a long one: node large.mjs ADDRESS TOKEN FOLDER TURNS. What the browser gets and shows is bounded.
import assert from 'node:assert/strict'
import { address, browser, broken, page, please, rest, see, token } from './browser.mjs'

const turns = Number(rest[0])
page.setDefaultTimeout(60_000) // a gateway that has just started reads every session once
await page.goto(address)
await page.fill('#token', token)
await page.click('button')
await page.waitForSelector('nav') // the token is in the cookie

const nodes = () => page.evaluate(() => document.querySelectorAll('*').length)
let got = [] // requests and their sizes
page.on('response', async (r) => {
  if (!r.url().includes('/api/') || r.url().includes('/events')) return
  const body = await r.body().catch(() => '')
  got.push([new URL(r.url()).pathname + new URL(r.url()).search, body.length])
})
const bounded = (what, most) => {
  const size = got.reduce((sum, [, n]) => sum + n, 0)
  assert.ok(size < most, `${what}: ${size} bytes in ${JSON.stringify(got)}`)
  got = []
}

// The list has a hundred of all sessions, and those before on demand.
const rows = () => page.locator('tbody tr').count()
await page.goto(address + '#/sessions')
await page.waitForSelector('tbody tr')
assert.equal(await rows(), 100)
assert.ok(await page.isVisible('text=1 to 100 of 2001'))
bounded('the list', 200_000)
await page.click('button:has-text("Next")')
await page.waitForSelector('text=101 to 200 of 2001')
assert.equal(await rows(), 100)
assert.ok(await nodes() < 2000)
await see('sessions-many')
await page.click('button:has-text("Back")')
await page.waitForSelector('text=1 to 100 of 2001')

// Filters, one after another.
const filter = async (label, value, want) => {
  await page.fill(`[aria-label=${label}]`, value)
  await page.waitForSelector('text=' + want)
}
await filter('Person', 'person-3', '1 to 100 of 286')
await filter('Tool', 'tool_2', '1 to 57 of 57')
await filter('Cost', '1', 'No session is like that')
await filter('Cost', '', '1 to 57 of 57')
await filter('Text', 'number 17', '1 to 3 of 3')
await see('sessions-found')
await filter('Person', '', 'found, searched from session 1 to 256')
await page.click('button:has-text("Search on")')
await page.waitForSelector('text=found, searched from session 257 to the last one')

// A long session begins with its newest part.
got = []
await page.goto(address + '#/s/long')
await page.waitForSelector(`.user:text-is("Turn ${turns}")`)
await page.waitForFunction(() => innerHeight + scrollY > document.body.scrollHeight - 80)
assert.ok(await nodes() < 3000)
assert.equal(await page.locator('.talk > li').count(), 201)
bounded('a long session', 300_000)
await page.click('button:has-text("Show earlier")')
await page.waitForSelector(`.user:text-is("Turn ${turns - 199}")`, { state: 'attached' })
assert.equal(await page.locator('.talk > li').count(), 401)
await see('session-long')

// So does its journal, which follows what happens, and is verified once.
got = []
await page.click('button:has-text("Journal")')
await page.waitForSelector('.tag:has-text("verified: chain")')
const entries = () => page.locator('.entry').count()
assert.equal(await entries(), 500)
bounded('the journal', 1_500_000)
await please('send a text')
await page.waitForFunction(() => document.querySelectorAll('.entry').length >= 502)
assert.equal(got.filter(([path]) => path.includes('verify')).length, 0)
const before = await entries()
await page.click('.journal > button')
await page.waitForFunction((n) => document.querySelectorAll('.entry').length >= n + 500, before) // more: the session parks
const numbers = (await page.locator('.entry .seq').allTextContents()).map(Number)
assert.deepEqual(numbers, numbers.map((_, i) => numbers[0] + i))
assert.ok(await nodes() < 10_000)
await see('journal-long')
assert.deepEqual(broken, [])
await browser.close()
process.exit(0)
