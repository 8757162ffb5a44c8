// Makes one call of each kind with Segment's Node package. Arguments: the folder of the packages, the name of the
// package, the address and the key.
const { createRequire } = require('node:module')

const [folder, name, host, writeKey] = process.argv.slice(2)
const { Analytics } = createRequire(folder + '/')(name)
const client = new Analytics({ writeKey, host, maxRetries: 1 })
client.on('error', (error) => {
  console.error(error)
  process.exitCode = 1
})
const userId = 'seg-ann'
client.track({ userId, event: 'Order Completed', properties: { revenue: 39.5 }, context: { ip: '203.0.113.9' } })
client.identify({ userId, anonymousId: 'seg-visitor', traits: { plan: 'team' } })
client.page({ userId, category: 'Docs', name: 'Start', properties: { url: 'https://example.com/start' } })
client.screen({ userId, name: 'Basket' })
client.group({ userId, groupId: 'acme', traits: { size: 12 } })
client.alias({ userId, previousId: 'seg-old' })
client.closeAndFlush()
