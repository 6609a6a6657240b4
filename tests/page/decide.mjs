// What a person decides on the page, and what comes of it: node decide.mjs ADDRESS TOKEN FOLDER.
import assert from 'node:assert/strict'
import { address, browser, broken, page, please, see, token } from './browser.mjs'

await page.goto(address)
await page.fill('#token', token)
await page.click('button')

const api = (path) => page.evaluate((path) => fetch('/api/' + path).then((r) => r.json()), path)
const card = (text) => page.locator('article', { hasText: text })
const click = (text, name) => card(text).getByRole('button', { name, exact: true }).click()
const pending = async () => (await api('approvals')).approvals.map((a) => a.id)
const empty = () => page.waitForSelector('text=Nothing waits for a decision')
// how says how the question about a call was decided.
const how = async (call) => (await api('approvals/decide/' + call)).questions.map((q) => q.decided).join()

// What is put aside stays pending, and comes back.
await card('echo one').waitFor()
await click('echo one', 'Later')
await page.waitForSelector('h2:text-is("Later")')
assert.ok(await page.isVisible('text=Nothing else waits for a decision'))
assert.deepEqual(await pending(), ['t1-r1-c1-g1'])
await see('later')
await click('echo one', 'Back to the inbox')
await page.waitForSelector('h2:text-is("Later")', { state: 'detached' })
assert.deepEqual(await pending(), ['t1-r1-c1-g1'])

// While the list of keys is shown, keys decide nothing behind it.
await page.waitForSelector('article button.main:enabled')
for (const key of ['j', '?', 'a', 'Escape']) await page.keyboard.press(key)
assert.ok(await page.isEnabled('article.selected button.main'))
assert.deepEqual(await pending(), ['t1-r1-c1-g1'])

// Other arguments have to be JSON. The tool gets them, and the journal has both.
await click('echo one', 'Edit…')
await card('echo one').locator('textarea').fill('{"argv":')
await click('echo one', 'Approve with these')
await page.waitForSelector('#notice:has-text("not JSON")')
assert.ok(await page.evaluate(() => { // also on a long page
  document.body.style.minHeight = '300vh'
  scrollTo(0, document.body.scrollHeight)
  return scrollY > 500 && document.getElementById('notice').getBoundingClientRect().top >= 0
}))
await page.evaluate(() => { document.body.style.minHeight = '' })
assert.deepEqual(await pending(), ['t1-r1-c1-g1'])
await card('echo one').locator('textarea').fill('{"argv":["sh","-c","echo edited"]}')
await click('echo one', 'Approve with these')

// Always: the same is not asked again.
await card('echo always').waitFor()
const edited = await api('approvals/decide/t1-r1-c1')
assert.deepEqual(edited.input, { argv: ['sh', '-c', 'echo edited'] })
assert.deepEqual(edited.model_input, { argv: ['sh', '-c', 'echo one'] })
assert.match(await card('echo always').textContent(), /"Always" covers every call of shell_exec in this session with the same arguments/)
await see('always')
await click('echo always', 'Always')
await card('echo never').waitFor()
assert.match(await how('t1-r2-c1'), /^approved by turnlog/)
const always = (await api('sessions/decide/entries')).entries.flatMap((e) => e.events).filter((e) => e.always === true || e.data?.always === true)
assert.equal(always.length, 1, JSON.stringify((await api('sessions/decide/entries')).entries.slice(-3)))
const grants = (await api('sessions/decide/entries')).entries.flatMap((e) => e.events).filter((e) => e.grant)
assert.deepEqual(grants.map((e) => [e.call, e.grant]), [['call_3_1', 't1-r2-c1-g1']])
assert.deepEqual(await pending(), ['t1-r4-c1-g1'])

// Denied, with a reason that the model gets.
await click('echo never', 'Deny…')
await card('echo never').locator('textarea').fill('not on a Sunday')
await click('echo never', 'Deny')
await empty()
assert.match(await how('t1-r4-c1'), /^denied by turnlog .*not on a Sunday/)
await page.waitForFunction(() => fetch('/api/sessions/decide/transcript').then((r) => r.text()).then((text) => /The results: edited.*always.*always.*not on a Sunday/s.test(text)))

// Calls that lost their worker: one runs again, one does not.
await please('owe two sums')
for (const sum of ['"sum": 5', '"sum": 6']) {
  await card(sum).waitFor()
  await click(sum, 'Approve')
  await card(sum).waitFor({ state: 'detached' })
}
await please('lose the worker')
await page.waitForSelector('h2:has-text("Calls that lost their workers")')
for (const sum of ['"sum": 5', '"sum": 6']) await card(sum).waitFor()
assert.match(await card('"sum": 5').textContent(), /Lost 1 of 1 attempts/)
await see('dead')

// Who may not decide has no button.
await page.route('**/api/dead', async (route) => {
  const response = await route.fetch()
  const dead = await response.json()
  for (const c of dead.calls) c.may_decide = false
  await route.fulfill({ response, json: dead })
})
await page.waitForFunction(() => document.querySelectorAll('article').length === 2 && document.querySelectorAll('article button').length === 0)
assert.match(await card('"sum": 5').textContent(), /Others decide this/)
await page.unroute('**/api/dead')

await click('"sum": 5', 'Retry')
await card('"sum": 5').waitFor({ state: 'detached' })
await click('"sum": 6', 'Drop')
await empty()
const settled = async (session) => {
  const { state, result, attempts, settled } = await api(`approvals/${session}/call_1_1`)
  return [state, result, attempts, ...settled.map((s) => `${s.outcome} by ${s.by}`)].join()
}
await page.waitForFunction(() => fetch('/api/approvals/debt-5/call_1_1').then((r) => r.json()).then((c) => c.state === 'over'))
assert.equal(await settled('debt-5'), 'over,ok,2,retried by turnlog')
assert.equal(await settled('debt-6'), 'dropped,unknown,1,dropped by turnlog')
await page.waitForFunction(() => fetch('/api/sessions/debt-5/transcript').then((r) => r.text()).then((text) => text.includes('paid 5')))

assert.deepEqual(broken, [])
await browser.close()
process.exit(0)
