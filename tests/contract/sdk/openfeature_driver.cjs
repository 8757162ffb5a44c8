// Executes commands with OpenFeature's server SDK, one JSON line each. Arguments: the folder of the
// packages, and the name of the provider package.
const { createRequire } = require('node:module')
const { createInterface } = require('node:readline')

const [folder, provider] = process.argv.slice(2)
const load = createRequire(folder + '/')
const { OpenFeature } = load('@openfeature/server-sdk')
const { OFREPProvider } = load(provider)
console.warn = console.error = console.log = () => {}

const methods = { boolean: 'getBooleanDetails', string: 'getStringDetails', number: 'getNumberDetails' }

const actions = {
  // Later commands refer to the client by `name`.
  async open({ name, host, headers }) {
    await OpenFeature.setProviderAndWait(name, new OFREPProvider({ baseUrl: host, headers: Object.entries(headers) }))
  },
  // The type of the default selects the method.
  details: ({ name, key, fallback, context }) =>
    OpenFeature.getClient(name)[methods[typeof fallback] ?? 'getObjectDetails'](key, fallback, context),
}

const respond = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, options] = JSON.parse(line)
    try {
      respond(await actions[action](options))
    } catch (error) {
      respond({ failed: String(error) })
    }
  }
  process.exit(0)
}

main()
