// A worker of a fleet whose failed messages wait in queues of fixed delays that all share, by amqplib.

const { serve } = require("./worker.js");

const resting = { "x-queue-type": "quorum", "x-delivery-limit": 1_000_000_000 };
const atLeastOnce = { "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish" };

serve(({ queue, tiers, waits }) => {
  const tier = (delay) => `delay.${delay}ms`;
  const tierNames = new Set(tiers.map(tier));
  return {
    queue,
    failedQueue: `${queue}.failed`,
    address: ["", queue],

    async declare(channel) {
      await channel.assertExchange("rehop.orphans", "fanout");
      await channel.assertQueue("rehop.orphans", { arguments: resting });
      await channel.bindQueue("rehop.orphans", "rehop.orphans", "");
      for (const name of ["rehop.return", "delay.return"]) await channel.assertExchange(name, "direct", { alternateExchange: "rehop.orphans" });
      for (const delay of tiers) {
        await channel.assertExchange(tier(delay), "fanout");
        await channel.assertQueue(tier(delay), {
          arguments: { ...resting, ...atLeastOnce, "x-message-ttl": delay, "x-dead-letter-exchange": "delay.return" },
        });
        await channel.bindQueue(tier(delay), tier(delay), "");
      }
      const failed = { "x-dead-letter-exchange": "rehop.return", "x-dead-letter-routing-key": `${queue}.failed` };
      await channel.assertQueue(`${queue}.failed`, { arguments: resting });
      await channel.bindQueue(`${queue}.failed`, "rehop.return", `${queue}.failed`);
      await channel.assertQueue(queue, { arguments: { "x-queue-type": "quorum", "x-delivery-limit": 50, ...atLeastOnce, ...failed } });
      await channel.bindQueue(queue, "delay.return", queue);
    },

    count: (message) =>
      (message.properties.headers["x-death"] ?? [])
        .filter((death) => tierNames.has(death.queue) && death.reason === "expired")
        .reduce((sum, death) => sum + death.count, 0),

    // A message waits in the tier with the next longer delay.
    async fail(channel, message, count) {
      if (count >= waits.length) {
        channel.nack(message, false, false);
        return "failed";
      }
      const delay = tiers.find((delay) => delay >= waits[count]);
      channel.publish(tier(delay), queue, message.content, { ...message.properties, mandatory: true });
      await channel.waitForConfirms();
      channel.ack(message);
      return "retried";
    },

    replayAddress: () => ["", queue],
  };
});
