// Uses a broker as programs do, by amqplib, and reports what it saw, one line of JSON a step.

const { once } = require("node:events");
const amqplib = require("amqplib");

const url = process.argv[2];
const dead = { deadLetterExchange: "dead" };

const report = (step, seen) => console.log(JSON.stringify({ step, ...seen }));

// what the broker said when it closed a channel or a connection
const reason = (error) => ({ code: error.code ?? Number(/(\d+) \(/.exec(error.message)[1]), text: /with message "(.*)"/.exec(error.message)[1] });

function deaths(headers) {
  const kept = ["count", "reason", "queue", "exchange", "routing-keys", "original-expiration"];
  return {
    death: headers["x-death"].map((d) => Object.fromEntries(kept.filter((k) => k in d).map((k) => [k, d[k]]))),
    first: ["queue", "reason", "exchange"].map((k) => headers["x-first-death-" + k]),
  };
}

// inbox gathers messages for whoever waits for the next.
function inbox() {
  const messages = [];
  let wake = () => {};
  return {
    put(message) {
      messages.push(message);
      wake();
    },
    async next() {
      while (messages.length === 0) await new Promise((resolve) => (wake = resolve));
      return messages.shift();
    },
  };
}

async function refused(connection, step, action) {
  const channel = await connection.createChannel();
  channel.on("error", () => {}); // the call fails with the same
  await action(channel).catch((error) => report(step, reason(error)));
}

async function main() {
  let connection = await amqplib.connect(url);
  let channel = await connection.createConfirmChannel();
  const ready = async (queue) => (await channel.checkQueue(queue)).messageCount;
  const publish = async (body, key = "job", properties = {}) => {
    channel.publish("events", key, Buffer.from(body), { persistent: true, mandatory: true, ...properties });
    await channel.waitForConfirms();
  };

  await channel.assertExchange("events", "direct");
  await channel.assertExchange("dead", "fanout");
  await channel.assertQueue("work", dead);
  const declared = await channel.assertQueue("wait", { messageTtl: 200, ...dead });
  await channel.assertQueue("graveyard");
  await channel.bindQueue("work", "events", "job");
  await channel.bindQueue("wait", "events", "later");
  await channel.bindQueue("graveyard", "dead", "");
  report("declare", { queue: declared.queue, messages: declared.messageCount, consumers: declared.consumerCount });

  for (let n = 0; n < 20; n++) await publish(`m${n}`);
  report("publish", { confirmed: 20 });

  const returned = once(channel, "return");
  await publish("lost", "nowhere");
  const [{ fields, content }] = await returned;
  report("return", { code: fields.replyCode, text: fields.replyText, exchange: fields.exchange, key: fields.routingKey, body: content.toString() });

  const bodies = [];
  const arrived = inbox();
  await channel.prefetch(5);
  const { consumerTag } = await channel.consume("work", arrived.put);
  while (bodies.length < 20) {
    const message = await arrived.next();
    bodies.push(message.content.toString());
    if (bodies.length === 5) report("prefetch", { held: bodies, ready: await ready("work") });
    if (bodies.length % 5 === 0) channel.ack(message, true);
  }
  await channel.cancel(consumerTag);
  report("consume", { bodies, ready: await ready("work") });

  await publish("{}", "job", {
    contentType: "application/json", messageId: "id-1", correlationId: "c-1", type: "t", appId: "a", priority: 3, timestamp: 1700000000,
    headers: { text: "grüße", number: 42, big: 5000000000, yes: true, list: ["a", 1], table: { k: "v" } },
  });
  let message = await channel.get("work");
  channel.ack(message);
  let p = message.properties;
  report("properties", {
    content_type: p.contentType, message_id: p.messageId, correlation_id: p.correlationId, type: p.type, app_id: p.appId,
    delivery_mode: p.deliveryMode, priority: p.priority, timestamp: p.timestamp, headers: p.headers,
  });

  await publish("again");
  const first = await channel.get("work");
  channel.nack(first);
  const second = await channel.get("work");
  channel.ack(second);
  report("requeue", { redelivered: [first.fields.redelivered, second.fields.redelivered] });

  const buried = inbox();
  const gravedigger = await channel.consume("graveyard", (message) => {
    channel.ack(message);
    buried.put(message);
  });

  await publish("bad");
  channel.reject(await channel.get("work"), false);
  message = await buried.next();
  report("reject", { body: message.content.toString(), ...deaths(message.properties.headers) });

  await publish("e0", "later");
  await publish("e1", "later", { expiration: "100" });
  for (let n = 0; n < 2; n++) {
    message = await buried.next();
    p = message.properties;
    report("expire", { body: message.content.toString(), key: message.fields.routingKey, expiration: p.expiration ?? null, ...deaths(p.headers) });
  }

  await publish("e2", "later");
  message = await buried.next();
  await publish(message.content, "later", { headers: message.properties.headers });
  message = await buried.next();
  report("expire again", { body: message.content.toString(), ...deaths(message.properties.headers) });
  await channel.cancel(gravedigger.consumerTag);

  await refused(connection, "missing", (channel) => channel.checkQueue("missing"));
  await refused(connection, "inequivalent", (channel) => channel.assertQueue("wait", { messageTtl: 300, ...dead }));
  report("go on", { ready: await ready("work") });

  await publish("kept");
  await channel.get("work");
  const closed = once(connection, "close");
  report("cut me");
  const [error] = await closed;
  report("cut", reason(error));
  connection = await amqplib.connect(url);
  channel = await connection.createChannel();
  message = await channel.get("work");
  channel.ack(message);
  report("reconnect", { body: message.content.toString(), redelivered: message.fields.redelivered });
  await connection.close();
  report("done");
}

main();
