# Uses a broker as programs do, by Bunny, and reports what it saw, one line of JSON a step.

require "bunny"
require "json"

DEAD = {"x-dead-letter-exchange" => "dead"}
$stdout.sync = true

def report(step, **seen)
  puts JSON.generate({step: step, **seen})
end

def deaths(headers)
  kept = %w[count reason queue exchange routing-keys original-expiration]
  {death: headers["x-death"].map { |d| d.slice(*kept) }, first: %w[queue reason exchange].map { |k| headers["x-first-death-#{k}"] }}
end

def refused(connection, step)
  yield connection.create_channel
rescue Bunny::ChannelLevelException => e
  report(step, code: e.channel_close.reply_code, text: e.channel_close.reply_text)
end

recovered = Thread::Queue.new
connection = Bunny.new(ARGV[0], network_recovery_interval: 0.1, logger: Logger.new(File::NULL),
                                recovery_completed: -> { recovered << true })
# Bunny recovers by itself and tells nobody why it had to.
def connection.instantiate_connection_level_exception(frame)
  report("cut", code: frame.reply_code, text: frame.reply_text)
  super
end
connection.start
channel = connection.create_channel
channel.confirm_select

events = channel.direct("events", durable: true)
dead = channel.fanout("dead", durable: true)
work = channel.queue("work", durable: true, arguments: DEAD).bind(events, routing_key: "job")
wait = channel.queue("wait", durable: true, arguments: {"x-message-ttl" => 200, **DEAD}).bind(events, routing_key: "later")
graveyard = channel.queue("graveyard", durable: true).bind(dead)
report("declare", queue: wait.name, messages: wait.message_count, consumers: wait.consumer_count)

publish = lambda do |body, key = "job", **properties|
  events.publish(body, routing_key: key, persistent: true, mandatory: true, **properties)
  channel.wait_for_confirms or raise "not confirmed: #{body}"
end

20.times { |n| publish.("m#{n}") }
report("publish", confirmed: 20)

returned = Thread::Queue.new
events.on_return { |info, _, body| returned << [info, body] }
publish.("lost", "nowhere")
info, body = returned.pop
report("return", code: info.reply_code, text: info.reply_text, exchange: info.exchange, key: info.routing_key, body: body)

bodies = []
channel.prefetch(5)
arrived = Thread::Queue.new
consumer = work.subscribe(manual_ack: true) { |info, _, body| arrived << [info, body] }
until bodies.size == 20
  info, body = arrived.pop
  bodies << body
  report("prefetch", held: bodies, ready: work.message_count) if bodies.size == 5
  channel.ack(info.delivery_tag, true) if bodies.size % 5 == 0
end
consumer.cancel
report("consume", bodies: bodies, ready: work.message_count)

publish.("{}", content_type: "application/json", message_id: "id-1", correlation_id: "c-1", type: "t", app_id: "a",
               priority: 3, timestamp: 1700000000,
               headers: {"text" => "grüße", "number" => 42, "big" => 5000000000, "yes" => true, "list" => ["a", 1], "table" => {"k" => "v"}})
info, p, _ = work.pop(manual_ack: true)
channel.ack(info.delivery_tag)
report("properties", content_type: p.content_type, message_id: p.message_id, correlation_id: p.correlation_id, type: p.type,
                     app_id: p.app_id, delivery_mode: p.delivery_mode, priority: p.priority, timestamp: p.timestamp.to_i, headers: p.headers)

publish.("again")
first, _, _ = work.pop(manual_ack: true)
channel.nack(first.delivery_tag, false, true)
second, _, _ = work.pop(manual_ack: true)
channel.ack(second.delivery_tag)
report("requeue", redelivered: [first.redelivered, second.redelivered])

buried = Thread::Queue.new
gravedigger = graveyard.subscribe(manual_ack: true) do |info, p, body|
  channel.ack(info.delivery_tag)
  buried << [info, p, body]
end

publish.("bad")
info, _, _ = work.pop(manual_ack: true)
channel.reject(info.delivery_tag, false)
_, p, body = buried.pop
report("reject", body: body, **deaths(p.headers))

publish.("e0", "later")
publish.("e1", "later", expiration: "100")
2.times do
  info, p, body = buried.pop
  report("expire", body: body, key: info.routing_key, expiration: p.expiration, **deaths(p.headers))
end

publish.("e2", "later")
_, p, body = buried.pop
publish.(body, "later", headers: p.headers)
_, p, body = buried.pop
report("expire again", body: body, **deaths(p.headers))
gravedigger.cancel

refused(connection, "missing") { |c| c.queue("missing", passive: true) }
refused(connection, "inequivalent") { |c| c.queue("wait", durable: true, arguments: {"x-message-ttl" => 300, **DEAD}) }
report("go on", ready: work.message_count)

publish.("kept")
work.pop(manual_ack: true)
report("cut me")
recovered.pop
info, _, body = work.pop(manual_ack: true)
channel.ack(info.delivery_tag)
report("reconnect", body: body, redelivered: info.redelivered)
connection.close
report("done")
