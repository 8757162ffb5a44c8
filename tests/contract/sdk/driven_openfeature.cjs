// Asks with OpenFeature's SDK for servers what it is told, a line of JSON at a time. Arguments: the
// folder of the packages, and which of them is the provider.
const { createRequire } = require('node:module')
const { createInterface } = require('node:readline')

const [folder, provider] = process.argv.slice(2)
const load = createRequire(folder + '/')
const { OpenFeature } = load('@openfeature/server-sdk')
const { OFREPProvider } = load(provider)
console.warn = console.error = console.log = () => {}

const asks = { boolean: 'getBooleanDetails', string: 'getStringDetails', number: 'getNumberDetails' }

const actions = {
  // `who` names the client from then on.
  async open({ who, host, headers }) {
    await OpenFeature.setProviderAndWait(who, new OFREPProvider({ baseUrl: host, headers: Object.entries(headers) }))
  },
  // The type that is asked for is that of the app's default.
  details: ({ who, key, otherwise, context }) =>
    OpenFeature.getClient(who)[asks[typeof otherwise] ?? 'getObjectDetails'](key, otherwise, context),
}

const answer = (value) => process.stdout.write(JSON.stringify(value ?? null) + '\n')

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, given] = JSON.parse(line)
    try {
      answer(await actions[action](given))
    } catch (error) {
      answer({ failed: String(error) })
    }
  }
  process.exit(0)
}

main()
