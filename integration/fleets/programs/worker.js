// The part of a worker that all programs for amqplib have: it takes commands from its input and reports on its output, one line of
// JSON each.

const readline = require("node:readline");
const amqplib = require("amqplib");

const [, , url, settings] = process.argv;

const report = (seen) => console.log(JSON.stringify(seen));

const seen = (message) => ({
  id: message.properties.messageId ?? "",
  body: message.content.toString(),
  headers: Object.fromEntries(Object.entries(message.properties.headers ?? {}).filter(([name]) => !name.startsWith("x-"))),
});

// consume handles what comes until it is cancelled, or so many messages if there is a limit.
async function consume(channel, fleet, { limit, fixed }) {
  const consumerTag = "worker"; // the first message may be here before the broker has said that it is consumed
  let left = limit;
  await channel.prefetch(limit ? 1 : 10);
  const handle = async (message) => {
    left -= 1;
    if (left === 0) await channel.cancel(consumerTag); // before the message is settled: another one must not come
    const count = fleet.count(message);
    let outcome = "handled";
    if (!fixed && count < JSON.parse(message.content).fails) outcome = await fleet.fail(channel, message, count);
    else channel.ack(message);
    const { redelivered, exchange, routingKey: key } = message.fields;
    report({ delivery: { ...seen(message), count, redelivered, exchange, key, outcome } });
  };
  await channel.consume(fleet.queue, handle, { consumerTag });
  return () => channel.cancel(consumerTag);
}

// eachFailed calls back for each message that rests now.
async function eachFailed(channel, fleet, visit) {
  for (let message; (message = await channel.get(fleet.failedQueue)); ) await visit(message);
}

const commands = {
  async declare(channel, fleet) {
    await fleet.declare(channel);
  },
  async publish(channel, fleet, { messages }) {
    for (const { id, body, headers } of messages)
      channel.publish(...fleet.address, Buffer.from(body), { contentType: "application/json", persistent: true, mandatory: true, messageId: id, headers });
    await channel.waitForConfirms();
  },
  async failed(channel, fleet) {
    const found = [];
    await eachFailed(channel, fleet, (message) => found.push(seen(message)));
    return found; // the channel gives all of them back when it closes
  },
  async replay(channel, fleet) {
    let replayed = 0;
    await eachFailed(channel, fleet, async (message) => {
      const { "x-death": _, ...headers } = message.properties.headers;
      channel.publish(...fleet.replayAddress(message), message.content, { ...message.properties, headers, mandatory: true });
      await channel.waitForConfirms();
      channel.ack(message);
      replayed += 1;
    });
    return replayed;
  },
};

exports.serve = async function serve(makeFleet) {
  const fleet = makeFleet(JSON.parse(settings));
  const connection = await amqplib.connect(url);
  let cancel;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let value = null;
    if (command.do === "consume") cancel = await consume(await connection.createConfirmChannel(), fleet, command);
    else if (command.do === "cancel") await cancel();
    else {
      const channel = await connection.createConfirmChannel();
      channel.on("return", ({ fields }) => {
        throw new Error(`${fields.replyText}: exchange '${fields.exchange}', key '${fields.routingKey}'`);
      });
      value = (await commands[command.do](channel, fleet, command)) ?? null;
      await channel.close();
    }
    report({ done: command.do, value });
  }
  await connection.close();
};
