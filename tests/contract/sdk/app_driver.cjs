// Executes commands with a mobile or web SDK, one JSON line each. The client has one current user.
// Arguments: the folder of the packages, and the name of the package.
const Module = require('node:module')
const { createInterface } = require('node:readline')

const [folder, name] = process.argv.slice(2)
const load = Module.createRequire(folder + '/')
const { version } = JSON.parse(require('node:fs').readFileSync(`${folder}/node_modules/${name}/package.json`))
console.warn = console.error = console.log = () => {}

// A stub of React Native: a device, and components that are never rendered.
const stub = () => new Proxy(function () {}, { get: (target, key) => (key === 'prototype' ? {} : stub()), apply: stub })
const removable = () => ({ remove() {} })
const device = {
  Platform: { OS: 'ios', Version: '17', select: (by) => by.ios ?? by.default },
  AppState: { currentState: 'active', addEventListener: removable },
  Dimensions: { get: () => ({ width: 390, height: 844 }) },
  Linking: { getInitialURL: async () => null, addEventListener: removable },
}
if (name.startsWith('posthog-react-native')) {
  const originalLoad = Module._load
  Module._load = function (id, ...rest) {
    if (id === 'react-native') return device
    return /^react(\/|$)/.test(id) ? stub() : originalLoad.call(this, id, ...rest)
  }
}
const sdk = load(name)
const PostHog = sdk.PostHog ?? sdk.default

const requestedPaths = []
const originalFetch = globalThis.fetch
globalThis.fetch = (url, options) => {
  requestedPaths.push(new URL(url).pathname + new URL(url).search)
  return originalFetch(url, options)
}
const storage = {}
let client

const actions = {
  async open({ host, token }) {
    client = new PostHog(token, {
      host,
      flushAt: 1000,
      flushInterval: 60000,
      persistence: 'memory',
      customStorage: { getItem: async (key) => storage[key] ?? null, setItem: async (key, value) => void (storage[key] = value) },
    })
    await client.ready?.()
    return version
  },
  distinct_id: () => client.getDistinctId(),
  requested_paths: () => requestedPaths,
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

const respond = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, options] = JSON.parse(line)
    try {
      const value = await actions[action](options)
      respond(['flush', 'capture', 'identify', 'close'].includes(action) ? null : value)
    } catch (error) {
      respond({ failed: String(error) })
    }
  }
  process.exit(0)
}

main()
