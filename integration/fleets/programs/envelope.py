"""A worker of a fleet that keeps its retries in the messages, by pika.

Takes commands from its input and reports on its output, one line of JSON each.
"""

import json
import sys
import threading

import pika

settings = json.loads(sys.argv[2])

MAIN_EXCHANGE = "order.main.x"
RETRY_EXCHANGE = "order.retry.x"
DEAD_EXCHANGE = "order.dead.x"
MAIN_QUEUE = settings["queue"]
RETRY_QUEUE = "order.retry.q"
DEAD_QUEUE = "order.dead.q"
MAX_RETRY = 5


class TemporaryError(Exception):
    pass


class PermanentError(Exception):
    pass


def report(**seen):
    print(json.dumps(seen, ensure_ascii=False, default=str), flush=True)


def seen_headers(properties):
    return {name: value for name, value in (properties.headers or {}).items() if not name.startswith("x-")}


def declare():
    channel = connection.channel()
    channel.exchange_declare(MAIN_EXCHANGE, exchange_type="topic", durable=True)
    channel.exchange_declare(RETRY_EXCHANGE, exchange_type="direct", durable=True)
    channel.exchange_declare(DEAD_EXCHANGE, exchange_type="fanout", durable=True)
    if settings["quorum"]:
        arguments = {"x-queue-type": "quorum", "x-delivery-limit": 8, "x-dead-letter-exchange": DEAD_EXCHANGE}
    else:
        arguments = {"x-dead-letter-exchange": RETRY_EXCHANGE, "x-dead-letter-routing-key": "order.retry"}
    channel.queue_declare(MAIN_QUEUE, durable=True, arguments=arguments)
    channel.queue_declare(RETRY_QUEUE, durable=True, arguments={
        "x-message-ttl": settings["delay"],
        "x-dead-letter-exchange": MAIN_EXCHANGE,
        "x-dead-letter-routing-key": "order.created",
    })
    channel.queue_declare(DEAD_QUEUE, durable=True)
    channel.queue_bind(MAIN_QUEUE, MAIN_EXCHANGE, "order.created")
    channel.queue_bind(RETRY_QUEUE, RETRY_EXCHANGE, "order.retry")
    channel.queue_bind(DEAD_QUEUE, DEAD_EXCHANGE, "")
    channel.close()


def publish(messages):
    channel = connection.channel()
    channel.confirm_delivery()
    for message in messages:
        channel.basic_publish(MAIN_EXCHANGE, "order.created", message["body"].encode(), pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=message["id"], headers=message["headers"]), mandatory=True)
    channel.close()


def move(channel, exchange, key, payload):
    """Publishes a message anew. Only the payload goes with it: that is where the fleet keeps what it must know."""
    body = json.dumps(payload, ensure_ascii=False).encode()
    channel.basic_publish(exchange, key, body, pika.BasicProperties(content_type="application/json", delivery_mode=2))


def publish_dead(channel, payload, reason):
    payload["dead_reason"] = reason
    move(channel, DEAD_EXCHANGE, "", payload)


def publish_retry(channel, payload):
    payload["retry_count"] = payload.get("retry_count", 0) + 1
    move(channel, RETRY_EXCHANGE, "order.retry", payload)


def process(payload, fixed):
    if fixed:
        return
    if payload.get("permanent"):
        raise PermanentError
    if payload.get("retry_count", 0) < payload["fails"]:
        raise TemporaryError


class Consumer:
    """Handles what comes until it is cancelled, or so many messages if there is a limit."""

    def __init__(self, limit, fixed):
        self.left, self.fixed = limit, fixed
        self.channel = connection.channel()
        self.channel.basic_qos(prefetch_count=1 if limit else 10)
        self.tag = self.channel.basic_consume(MAIN_QUEUE, self.handle)

    def cancel(self):
        self.channel.basic_cancel(self.tag)

    def handle(self, channel, method, properties, body):
        self.left -= 1
        if self.left == 0:
            self.cancel()  # before the message is settled: another one must not come
        payload = json.loads(body)
        count = payload.get("retry_count", 0)
        outcome = "handled"
        try:
            process(payload, self.fixed)
        except TemporaryError:
            if count >= MAX_RETRY:
                publish_dead(channel, payload, "retry_limit")
                outcome = "failed"
            else:
                publish_retry(channel, payload)
                outcome = "retried"
        except PermanentError:
            publish_dead(channel, payload, "business_rejected")
            outcome = "failed"
        channel.basic_ack(method.delivery_tag)
        report(delivery={"id": properties.message_id or "", "body": body.decode(), "headers": seen_headers(properties), "count": count,
                         "redelivered": method.redelivered, "exchange": method.exchange, "key": method.routing_key, "outcome": outcome})


def dead_messages(channel):
    while True:
        method, properties, body = channel.basic_get(DEAD_QUEUE)
        if method is None:
            return
        yield method, properties, body


def failed():
    channel = connection.channel()
    found = [{"id": properties.message_id or "", "body": body.decode(), "headers": seen_headers(properties),
              "reason": json.loads(body).get("dead_reason", "")} for _, properties, body in dead_messages(channel)]
    channel.close()  # gives all of them back
    return found


def replay():
    channel = connection.channel()
    channel.confirm_delivery()
    replayed = 0
    for method, properties, body in dead_messages(channel):
        payload = json.loads(body)
        payload.pop("dead_reason", None)
        payload["retry_count"] = 0
        channel.basic_publish(MAIN_EXCHANGE, "order.created", json.dumps(payload, ensure_ascii=False).encode(), pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=properties.message_id), mandatory=True)
        channel.basic_ack(method.delivery_tag)
        replayed += 1
    channel.close()
    return replayed


def perform(command):
    global consumer
    do, value = command["do"], None
    if do == "declare":
        declare()
    elif do == "publish":
        publish(command["messages"])
    elif do == "consume":
        consumer = Consumer(command["limit"], command["fixed"])
    elif do == "cancel":
        consumer.cancel()
    elif do == "failed":
        value = failed()
    elif do == "replay":
        value = replay()
    report(done=do, value=value)


def listen():
    for line in sys.stdin:
        command = json.loads(line)
        connection.add_callback_threadsafe(lambda command=command: perform(command))
    connection.add_callback_threadsafe(connection.close)


consumer = None
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
threading.Thread(target=listen, daemon=True).start()
while connection.is_open:
    connection.process_data_events(time_limit=None)
