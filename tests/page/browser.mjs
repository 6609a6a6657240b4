// A browser with a page: node SCRIPT ADDRESS TOKEN FOLDER …
import assert from 'node:assert/strict'
import { createInterface } from 'node:readline'
import AxeBuilder from '@axe-core/playwright'
import { chromium } from 'playwright-core'

export const [address, token, folder, ...rest] = process.argv.slice(2)
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// please has the test do something, and waits until it has.
export const please = async (what) => {
  console.log('please ' + what)
  await answers.next()
}

export const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
export const wide = await browser.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: 'light' })
export const page = await wide.newPage()
page.setDefaultTimeout(20_000)
export const broken = []
page.on('pageerror', (err) => broken.push(err.message))
page.on('dialog', () => broken.push('a dialog opened'))

// see takes a picture, and has its contrast and names checked.
export const see = async (name, on = page) => {
  await on.screenshot({ path: `${folder}/${name}.png` })
  const { violations } = await new AxeBuilder({ page: on }).analyze()
  assert.deepEqual(violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => `${name}: ${v.id} ${v.nodes[0].target}`), [])
}

