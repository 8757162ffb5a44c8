// Executes commands with posthog-node, one JSON line each. Arguments: the folder of the packages, the
// name of the package, and its entry point.
const { createRequire } = require('node:module')
const { createInterface } = require('node:readline')

const [folder, name, entry] = process.argv.slice(2)
const load = createRequire(folder + '/')
const { PostHog } = load(name + entry)
const { version } = JSON.parse(require('node:fs').readFileSync(`${folder}/node_modules/${name}/package.json`))
const warnings = []
console.warn = (text) => warnings.push(String(text))
console.error = console.log = () => {}

let client
const clients = {}
const errors = []

const toOptions = ({ person, groups, group_properties }) => ({
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
  // Select the client for the following commands.
  use({ name }) {
    client = clients[name]
  },
  capture: ({ id, event, properties, groups }) =>
    client.capture({ distinctId: id, event, properties, groups: groups ?? undefined }),
  capture_ai: ({ id, event, properties }) => client.captureAi({ distinctId: id, event, properties }),
  identify: ({ id, properties }) => client.identify({ distinctId: id, properties }),
  alias: ({ previous, id }) => client.alias({ distinctId: previous, alias: id }),
  group: ({ type, key, properties }) => client.groupIdentify({ groupType: type, groupKey: key, properties }),
  flag: ({ key, id, local, ...rest }) =>
    client.getFeatureFlag(key, id, { onlyEvaluateLocally: local ?? false, ...toOptions(rest) }),
  payload: ({ key, id, ...rest }) => client.getFeatureFlagPayload(key, id, undefined, toOptions(rest)),
  async all_flags({ id, local, ...rest }) {
    const response = await client.getAllFlagsAndPayloads(id, { onlyEvaluateLocally: local ?? false, ...toOptions(rest) })
    return [response.featureFlags, response.featureFlagPayloads]
  },
  async evaluate_flags({ id, ...rest }) {
    const flags = await client.evaluateFlags(id, toOptions(rest))
    return Object.fromEntries(flags.keys.map((key) => [key, [flags.getFlag(key), flags.getFlagPayload(key) ?? null]]))
  },
  remote_config: ({ key }) => client.getRemoteConfigPayload(key),
  reload: () => client.reloadFeatureFlags(),
  // The warnings that the SDK logged.
  warned: () => warnings,
  // Twice, because the older version joins a running flush, which excludes newer events.
  async flush() {
    for (const _ of ['running', 'rest']) {
      await client.flush().catch((error) => errors.push(String(error)))
    }
    return errors
  },
  close: () => client.shutdown(),
}

const respond = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, options] = JSON.parse(line)
    try {
      respond(await actions[action](options))
    } catch (error) {
      errors.push(String(error))
      respond(null)
    }
  }
  process.exit(0)
}

main()
