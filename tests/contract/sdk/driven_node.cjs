// Does with posthog-node what it is told, a line of JSON at a time. Arguments: the folder of the
// packages, which of them, and by which entry.
const { createRequire } = require('node:module')
const { createInterface } = require('node:readline')

const [folder, name, entry] = process.argv.slice(2)
const load = createRequire(folder + '/')
const { PostHog } = load(name + entry)
const { version } = JSON.parse(require('node:fs').readFileSync(`${folder}/node_modules/${name}/package.json`))
console.warn = console.error = console.log = () => {}

let client
const clients = {}
const errors = []

const known = ({ person, groups, group_properties }) => ({
  groups: groups ?? {},
  personProperties: person ?? {},
  groupProperties: group_properties ?? {},
})

const actions = {
  async open({ host, token, secret, retries, poll_s, timeout_s, name }) {
    client = clients[name ?? ''] = new PostHog(token, {
      host,
      personalApiKey: secret ?? undefined,
      flushAt: 5,
      flushInterval: 50,
      fetchRetryCount: retries ?? 2,
      fetchRetryDelay: 250,
      featureFlagsPollingInterval: (poll_s ?? 3600) * 1000,
      requestTimeout: (timeout_s ?? 15) * 1000,
      featureFlagsRequestTimeoutMs: (timeout_s ?? 15) * 1000,
    })
    client.on('error', (error) => errors.push(String(error)))
    if (secret) await client.reloadFeatureFlags()
    return version
  },
  // All that follows is for this one of the clients that are open.
  use({ name }) {
    client = clients[name]
  },
  capture: ({ id, event, properties, groups }) =>
    client.capture({ distinctId: id, event, properties, groups: groups ?? undefined }),
  capture_ai: ({ id, event, properties }) => client.captureAi({ distinctId: id, event, properties }),
  identify: ({ id, properties }) => client.identify({ distinctId: id, properties }),
  alias: ({ before, id }) => client.alias({ distinctId: before, alias: id }),
  group: ({ type, key, properties }) => client.groupIdentify({ groupType: type, groupKey: key, properties }),
  flag: ({ key, id, local, ...more }) =>
    client.getFeatureFlag(key, id, { onlyEvaluateLocally: local ?? false, ...known(more) }),
  payload: ({ key, id, ...more }) => client.getFeatureFlagPayload(key, id, undefined, known(more)),
  async everything({ id, local, ...more }) {
    const found = await client.getAllFlagsAndPayloads(id, { onlyEvaluateLocally: local ?? false, ...known(more) })
    return [found.featureFlags, found.featureFlagPayloads]
  },
  async evaluated({ id, ...more }) {
    const flags = await client.evaluateFlags(id, known(more))
    return Object.fromEntries(flags.keys.map((key) => [key, [flags.getFlag(key), flags.getFlagPayload(key) ?? null]]))
  },
  remote_config: ({ key }) => client.getRemoteConfigPayload(key),
  reload: () => client.reloadFeatureFlags(),
  // Twice, for the older one joins what it is sending already, and leaves what was captured since.
  async flush() {
    for (const _ of ['what is under way', 'the rest']) {
      await client.flush().catch((error) => errors.push(String(error)))
    }
    return errors
  },
  close: () => client.shutdown(),
}

const answer = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, given] = JSON.parse(line)
    try {
      answer(await actions[action](given))
    } catch (error) {
      errors.push(String(error))
      answer(null)
    }
  }
  process.exit(0)
}

main()
