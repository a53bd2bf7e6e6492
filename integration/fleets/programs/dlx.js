// A worker of a fleet that requeues what fails once, and then has it dead-lettered, by amqplib.

const { serve } = require("./worker.js");

const DAY = 24 * 60 * 60 * 1000;

serve(({ queue, key }) => ({
  queue,
  failedQueue: "dlq",
  address: ["order", key],

  async declare(channel) {
    await channel.assertExchange("dlx", "topic");
    await channel.assertQueue("dlq", { arguments: { "x-queue-mode": "lazy" } });
    await channel.bindQueue("dlq", "dlx", "#");
    await channel.assertExchange("order", "topic", { alternateExchange: "dlx" });
    const bounded = { arguments: { "x-dead-letter-exchange": "dlx", "x-overflow": "drop-head", "x-max-length": 300, "x-message-ttl": DAY } };
    await channel.assertQueue("order-summary-queue", bounded);
    await channel.bindQueue("order-summary-queue", "order", "order.#");
    await channel.assertQueue("order-notification-queue", bounded);
    await channel.bindQueue("order-notification-queue", "order", "order.created");
  },

  count: (message) => (message.fields.redelivered ? 1 : 0),

  fail(channel, message) {
    const again = !message.fields.redelivered;
    channel.nack(message, false, again);
    return again ? "retried" : "failed";
  },

  replayAddress: (message) => ["order", message.fields.routingKey],
}));
