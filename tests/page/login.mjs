// Logins at a provider: node login.mjs ADDRESS PROVIDER FOLDER.
import assert from 'node:assert/strict'
import { address, browser, broken, page, please, see, token as provider, wide } from './browser.mjs'

const me = (on) => on.evaluate(async () => (await fetch('/api/me')).json())

// login goes to the provider and says who somebody is there.
const login = async (on, email, role) => {
  await on.goto(address)
  await on.click('text=Log in')
  await on.waitForURL((url) => url.origin === provider)
  await on.fill('[name=email]', email)
  await on.fill('[name=role]', role)
  await on.click('button')
  await on.waitForSelector('nav')
}

await page.goto(address)
await see('login')
assert.equal(await page.locator('#token').count(), 0) // there are no tokens here
await login(page, 'ada@example.com', 'writers')
assert.deepEqual(await me(page).then(({ name, role }) => [name, role]), ['ada@example.com', 'user'])
await page.waitForSelector('#who:text-is("ada@example.com (user)")')
assert.ok(!page.url().includes('code='))
const cookies = await wide.cookies()
assert.deepEqual(cookies.map((c) => [c.name, c.httpOnly, c.sameSite]), [['turnlog_session_' + new URL(address).port, true, 'Lax']])
assert.equal(await page.evaluate(() => document.cookie), '')

// She starts a session, which asks. She may not decide.
await page.goto(address + '#/sessions')
await page.fill('textarea', 'Go')
await page.click('button:has-text("Start")')
await page.waitForSelector('article')
assert.match(await page.textContent('article'), /Others decide this/)
await see('login-user')

// Another gateway knows her without the provider.
await please('start another gateway')
await page.reload()
await page.waitForSelector('article')

// Somebody else, in another browser, decides. The journal has both names.
const other = await browser.newContext({ viewport: { width: 1200, height: 800 } })
const second = await other.newPage()
await login(second, 'rob@example.com', 'reviewers')
await second.click('article button:has-text("Approve")')
await second.waitForSelector('text=Nothing waits for a decision')
await page.waitForSelector('details.call .tag.good')
const entries = await page.evaluate(async () => (await fetch('/api/sessions/' + location.hash.split('/')[2] + '/entries')).text())
for (const name of ['ada@example.com', 'rob@example.com']) assert.ok(entries.includes(`"by":"${name}"`), name)

// Who has no role at the provider gets in nowhere.
const stranger = await (await browser.newContext()).newPage()
await stranger.goto(address)
await stranger.click('text=Log in')
await stranger.fill('[name=email]', 'eve@example.com')
await stranger.fill('[name=role]', 'guests')
await stranger.click('button')
await stranger.waitForSelector('[role=alert]')
await see('login-refused', stranger)
assert.equal(await stranger.evaluate(async () => (await fetch('/api/me')).status), 401)

// A code of another person's login is refused.
const forged = await stranger.goto(address + 'login/callback?state=x&code=code-1')
assert.ok(forged.status() >= 400)

// Log out, and in again. Without its provider the gateway keeps who is in, and says so to the others.
await page.click('button:has-text("Log out")')
await page.waitForSelector('text=Log in')
assert.deepEqual(await wide.cookies(), [])
await login(page, 'ada@example.com', 'writers')
await please('end the provider')
await page.reload()
await page.waitForSelector('nav')
assert.equal((await me(page)).name, 'ada@example.com')
assert.deepEqual(broken, [])
await browser.close()
process.exit(0)
