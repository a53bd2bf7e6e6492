# A worker of a fleet that retries as the Maxretry handler of the gem Sneakers does, by Bunny: up to 2.11 (form "document"), as jondot/sneakers at
# 9780692 (form "retry_info"), or as ruby-amqp/kicks at ac8f596, where the retry and error queues have the type of the queue ("inherits").
#
# Takes commands from its input and reports on its output, one line of JSON each.

require "base64"
require "bunny"
require "json"
require "time"

SETTINGS = JSON.parse(ARGV[1], symbolize_names: true)
QUEUE = SETTINGS[:queue]
MAX_RETRIES = 5
$stdout.sync = true

def report(**seen)
  puts JSON.generate(seen)
end

def seen_headers(properties)
  (properties.headers || {}).reject { |name, _| name.start_with?("x-") }
end

# What becomes of messages that fail: the broker takes what is rejected round by the retry queue, and counts.
class Retries
  def initialize(channel)
    @channel = channel
  end

  def declare
    type = SETTINGS[:type] ? {"x-queue-type" => SETTINGS[:type]} : {}
    inherited = SETTINGS[:inherits] ? type : {}
    work = @channel.queue(QUEUE, durable: true, arguments: {"x-dead-letter-exchange" => "#{QUEUE}-retry", **type})
    work.bind(@channel.direct("sneakers", durable: true), routing_key: QUEUE)
    retrying, failing, requeueing = %w[retry error retry-requeue].map { |name| @channel.topic("#{QUEUE}-#{name}", durable: true) }
    wait = {"x-dead-letter-exchange" => requeueing.name, "x-message-ttl" => SETTINGS[:delay], **inherited}
    @channel.queue(retrying.name, durable: true, arguments: wait).bind(retrying, routing_key: "#")
    @channel.queue(failing.name, durable: true, arguments: inherited).bind(failing, routing_key: "#")
    work.bind(requeueing, routing_key: "#")
  end

  def count(properties)
    own = (properties.headers || {}).fetch("x-death", []).select { |death| death["queue"] == QUEUE }
    own.sum { |death| death.fetch("count", 1) }
  end

  # Rejects the message, or moves it to the error exchange if it has been rejected often enough.
  def fail(info, properties, body, error)
    attempts = count(properties) + 1
    if attempts <= MAX_RETRIES
      @channel.reject(info.delivery_tag, false)
      return "retried"
    end
    send(SETTINGS[:form], info, properties, body, error: error.to_s, num_attempts: attempts, failed_at: Time.now.iso8601,
                                                  error_class: error.class.to_s, error_message: error.to_s)
    @channel.ack(info.delivery_tag)
    "failed"
  end

  private

  def document(info, properties, body, **why)
    content = {**why, payload: Base64.encode64(body), properties: Base64.encode64(properties.to_json)}
    @channel.topic("#{QUEUE}-error", durable: true).publish(content.to_json, routing_key: info.routing_key)
  end

  def retry_info(info, properties, body, **why)
    why[:properties] = properties.to_hash
    headers = {retry_info: why.to_json}
    @channel.topic("#{QUEUE}-error", durable: true).publish(body, routing_key: info.routing_key, headers: headers)
  end
end

# Handles what comes until it is cancelled, or so many messages if there is a limit.
class Consumer
  def initialize(connection, limit:, fixed:)
    @left, @fixed = limit, fixed
    @channel = connection.create_channel
    @channel.prefetch(limit > 0 ? 1 : 10)
    @retries = Retries.new(@channel)
    arrived = Thread::Queue.new
    @consumer = @channel.queue(QUEUE, passive: true).subscribe(manual_ack: true) { |*delivery| arrived << delivery }
    # Bunny's own thread cannot wait for the end of the consumer for which it works.
    Thread.new { loop { handle(*arrived.pop) } }.abort_on_exception = true
  end

  def cancel
    @consumer.cancel
  end

  private

  def handle(info, properties, body)
    @left -= 1
    cancel if @left == 0 # before the message is settled: another one must not come
    count = @retries.count(properties)
    outcome = "handled"
    begin
      process(body, count)
      @channel.ack(info.delivery_tag)
    rescue RuntimeError => e
      outcome = @retries.fail(info, properties, body, e)
    end
    report(delivery: {id: properties.message_id || "", body: body.dup.force_encoding("UTF-8"), headers: seen_headers(properties), count: count,
                      redelivered: info.redelivered, exchange: info.exchange, key: info.routing_key, outcome: outcome})
  end

  def process(body, count)
    raise "the message is to fail" if !@fixed && count < JSON.parse(body)["fails"]
  end
end

def publish(channel, messages)
  channel.confirm_select
  exchange = channel.direct("sneakers", durable: true)
  messages.each do |m|
    exchange.publish(m[:body], routing_key: QUEUE, persistent: true, message_id: m[:id], headers: m[:headers].transform_keys(&:to_s))
  end
  channel.wait_for_confirms or raise "not confirmed: #{messages}"
end

# Each message that rests, as it was before it failed. Error queues outlive versions: there may be both forms.
def each_failed(channel)
  errors = channel.queue("#{QUEUE}-error", passive: true)
  loop do
    info, properties, body = errors.pop(manual_ack: true)
    return if info.nil?
    beside = (properties.headers || {})["retry_info"]
    document = JSON.parse(beside || body)
    body = Base64.decode64(document["payload"]) unless beside
    yield info, properties, body.force_encoding("UTF-8"), document["error"]
  end
end

def failed(channel)
  found = []
  each_failed(channel) do |_, properties, body, reason|
    found << {id: properties.message_id || "", body: body, headers: seen_headers(properties), reason: reason}
  end
  found # the channel gives all of them back when it closes
end

def replay(channel)
  channel.confirm_select
  exchange = channel.direct("sneakers", durable: true)
  replayed = 0
  each_failed(channel) do |info, properties, body, _|
    exchange.publish(body, routing_key: info.routing_key, persistent: true, mandatory: true, message_id: properties.message_id)
    channel.wait_for_confirms or raise "not confirmed: #{body}"
    channel.ack(info.delivery_tag)
    replayed += 1
  end
  replayed
end

connection = Bunny.new(ARGV[0], logger: Logger.new(File::NULL))
connection.start
consumer = nil
$stdin.each_line do |line|
  command = JSON.parse(line, symbolize_names: true)
  channel = connection.create_channel
  value = case command[:do]
          when "declare" then Retries.new(channel).declare && nil
          when "publish" then publish(channel, command[:messages]) && nil
          when "consume" then (consumer = Consumer.new(connection, **command.slice(:limit, :fixed))) && nil
          when "cancel" then consumer.cancel && nil
          when "failed" then failed(channel)
          when "replay" then replay(channel)
          end
  channel.close
  report(done: command[:do], value: value)
end
connection.close
