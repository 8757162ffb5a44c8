// Does with a client for apps what it is told, a line of JSON at a time. Such a client is one person
// at a time, and knows who. Arguments: the folder of the packages, and which of them.
const Module = require('node:module')
const { createInterface } = require('node:readline')

const [folder, name] = process.argv.slice(2)
const load = Module.createRequire(folder + '/')
const { version } = JSON.parse(require('node:fs').readFileSync(`${folder}/node_modules/${name}/package.json`))
console.warn = console.error = console.log = () => {}

// What React Native is to its client where nothing is shown: a telephone, and parts that are never drawn.
const nothing = () => new Proxy(function () {}, { get: (of, key) => (key === 'prototype' ? {} : nothing()), apply: nothing })
const removable = () => ({ remove() {} })
const telephone = {
  Platform: { OS: 'ios', Version: '17', select: (by) => by.ios ?? by.default },
  AppState: { currentState: 'active', addEventListener: removable },
  Dimensions: { get: () => ({ width: 390, height: 844 }) },
  Linking: { getInitialURL: async () => null, addEventListener: removable },
}
if (name.startsWith('posthog-react-native')) {
  const usual = Module._load
  Module._load = function (asked, ...more) {
    if (asked === 'react-native') return telephone
    return /^react(\/|$)/.test(asked) ? nothing() : usual.call(this, asked, ...more)
  }
}
const loaded = load(name)
const PostHog = loaded.PostHog ?? loaded.default

const asked = []
const usualFetch = globalThis.fetch
globalThis.fetch = (url, options) => {
  asked.push(new URL(url).pathname + new URL(url).search)
  return usualFetch(url, options)
}
const kept = {}
let client

const actions = {
  async open({ host, token }) {
    client = new PostHog(token, {
      host,
      flushAt: 1000,
      flushInterval: 60000,
      persistence: 'memory',
      customStorage: { getItem: async (key) => kept[key] ?? null, setItem: async (key, value) => void (kept[key] = value) },
    })
    await client.ready?.()
    return version
  },
  who: () => client.getDistinctId(),
  asked: () => asked,
  capture: ({ event, properties }) => client.capture(event, properties),
  identify: ({ id, properties }) => client.identify(id, properties),
  alias: ({ id }) => client.alias(id),
  group: ({ type, key, properties }) => client.group(type, key, properties),
  register: ({ properties }) => client.register(properties),
  reset: () => client.reset(),
  opt_out: () => client.optOut(),
  opt_in: () => client.optIn(),
  reload: () => client.reloadFeatureFlagsAsync(),
  flags: () => client.getFeatureFlags(),
  flag: ({ key }) => client.getFeatureFlag(key),
  payload: ({ key }) => client.getFeatureFlagPayload(key),
  flush: () => client.flush(),
  close: () => client.shutdown(),
}

const answer = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, given] = JSON.parse(line)
    try {
      const value = await actions[action](given)
      answer(['flush', 'capture', 'identify', 'close'].includes(action) ? null : value)
    } catch (error) {
      answer({ failed: String(error) })
    }
  }
  process.exit(0)
}

main()
