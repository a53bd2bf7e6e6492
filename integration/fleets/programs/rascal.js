// A worker of rascal's own kind: the configuration is that of rascal's examples, with a dead-letter exchange, and a handler's error is recovered by
// one of rascal's strategies. It takes commands from its input and reports on its output, one line of JSON each.

const readline = require("node:readline");
const { BrokerAsPromised, withDefaultConfig } = require("rascal");

const [, , url, settings] = process.argv;
const { recovery } = JSON.parse(settings);

const QUEUE = "registration_service:user:save";
const DEAD_LETTERS = "dead_letters:registration_service";
const TIMEOUT = 120_000; // milliseconds: nothing here is about timeouts, and a busy machine is slow

const config = withDefaultConfig({
  vhosts: {
    "/": {
      connection: { url, options: { heartbeat: 60, connection_timeout: TIMEOUT }, socketOptions: { timeout: TIMEOUT } },
      exchanges: { service: { options: { alternateExchange: "dead_letters" } }, delay: {}, retry: {}, dead_letters: {} },
      queues: {
        [QUEUE]: {
          options: {
            arguments: { "x-dead-letter-exchange": "dead_letters", "x-dead-letter-routing-key": "registration_service.dead_letter" },
          },
        },
        "delay:short": { options: { arguments: { "x-message-ttl": 100, "x-dead-letter-exchange": "retry" } } },
        [DEAD_LETTERS]: {},
      },
      bindings: {
        [`service[user.#] -> ${QUEUE}`]: {},
        "delay[delay.short] -> delay:short": {},
        [`retry[${QUEUE}.#] -> ${QUEUE}`]: {},
        [`dead_letters -> ${DEAD_LETTERS}`]: {},
      },
      publications: {
        save_user: { exchange: "service", routingKey: "user.created", timeout: TIMEOUT },
        retry_soon: { exchange: "delay", options: { CC: ["delay.short"] }, timeout: TIMEOUT },
      },
      subscriptions: {
        save_user: { queue: QUEUE, redeliveries: { limit: 5, counter: "inMemory" } },
      },
    },
  },
  redeliveries: { counters: { inMemory: {} } },
});

const report = (seen) => console.log(JSON.stringify(seen));

// Nothing that rascal reports may go by unseen. The program ends, and the test with it.
const fail = (error) => {
  throw error;
};

const sum = (record) => (record?.republished ?? 0) + (record?.forwarded ?? 0);

let broker;
let session;

const commands = {
  async declare() {
    broker = await BrokerAsPromised.create(config);
    broker.on("error", fail);
  },
  async publish({ messages }) {
    for (const { id, body, headers } of messages) {
      const publication = await broker.publish("save_user", JSON.parse(body), { options: { messageId: id, headers } });
      await new Promise((resolve) => publication.on("success", resolve).on("error", fail).on("return", fail));
    }
  },
  async consume({ fixed }) {
    session = await broker.subscribe("save_user");
    session.on("error", fail);
    session.on("redeliveries_exceeded", fail);
    const subscribed = new Promise((resolve) => session.on("subscribed", resolve));
    session.on("message", (message, content, ackOrNack) => {
      const { rascal, ...headers } = message.properties.headers;
      const { redelivered, exchange, routingKey: key } = message.fields;
      const failed = !fixed && content.fails > 0;
      report({
        delivery: {
          id: message.properties.messageId,
          body: message.content.toString(),
          headers,
          count: sum(rascal.recovery?.[QUEUE]),
          redelivered,
          exchange,
          key,
          outcome: failed ? "failed" : "handled",
        },
      });
      failed ? ackOrNack(new Error("the message is to fail"), recovery) : ackOrNack();
    });
    await subscribed;
  },
  async cancel() {
    await session.cancel();
  },
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    await commands[command.do](command);
    report({ done: command.do, value: true });
  }
  await broker.shutdown();
})();
