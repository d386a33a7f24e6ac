// Members of a consumer group on kafkajs, all on one event loop: classic eager with kafkajs' own round robin.
// The contract is that of tests/support/members: settings as one JSON argument, events as JSON lines, each a
// single write, and everybody leaves when standard input ends.
'use strict'

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const settings = JSON.parse(process.argv[2])

const say = (member, event, facts) => fs.writeSync(1, JSON.stringify({ member, event, ...facts }) + '\n')

const consumers = new Map()

const start = async (member) => {
  const kafka = new Kafka({
    clientId: member,
    brokers: [settings.bootstrap],
    logLevel: logLevel.ERROR,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 100 },
  })
  const consumer = kafka.consumer({
    groupId: settings.group,
    sessionTimeout: settings.session_ms,
    heartbeatInterval: settings.heartbeat_ms,
    rebalanceTimeout: 10000,
    metadataMaxAge: 5000,
    maxWaitTimeInMs: 200,
  })
  let owned = []
  const revoke = () => {
    if (owned.length > 0) say(member, 'revoked', { partitions: owned })
    owned = []
  }
  consumer.on(consumer.events.REBALANCING, revoke)
  consumer.on(consumer.events.CRASH, async ({ payload }) => {
    revoke()
    // A consumer that does not restart is of no more use: the member goes on with another one.
    if (!payload.restart && consumers.get(member) === consumer) await start(member)
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke()
    owned = payload.memberAssignment[settings.topic] || []
    say(member, 'assigned', { partitions: owned })
  })
  const eachBatch = async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
    if (!isRunning() || isStale() || batch.messages.length === 0) return
    const offsets = batch.messages.map((message) => Number(message.offset))
    const next = String(offsets[offsets.length - 1] + 1)
    say(member, 'processed', { partition: batch.partition, offsets })
    try {
      await consumer.commitOffsets([{ topic: settings.topic, partition: batch.partition, offset: next }])
    } catch (refusal) {
      say(member, 'refused', { error: refusal.message })
      throw refusal
    }
    say(member, 'committed', { partition: batch.partition, offset: Number(next) })
    resolveOffset(batch.messages[batch.messages.length - 1].offset)
    await heartbeat()
  }
  consumers.set(member, consumer)
  await consumer.connect()
  await consumer.subscribe({ topics: [settings.topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
}

const main = async () => {
  await Promise.all(settings.names.map(start))
  process.stdin.on('end', async () => {
    for (const [member, consumer] of consumers) {
      await consumer.disconnect()
      say(member, 'closed', {})
    }
    process.exit(0)
  })
  process.stdin.resume()
}

main().catch((failure) => {
  console.error(failure)
  process.exit(1)
})
