"""Uses a broker as programs do, by pika, and reports what it saw, one line of JSON a step."""

import json
import sys
import time

import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionClosedByBroker, UnroutableError

url = pika.URLParameters(sys.argv[1])
DEAD = {"x-dead-letter-exchange": "dead"}


def report(step, **seen):
    print(json.dumps({"step": step, **seen}, ensure_ascii=False), flush=True)


def publish(channel, body, key="job", **properties):
    channel.basic_publish("events", key, body, pika.BasicProperties(delivery_mode=2, **properties), mandatory=True)


def bury(channel):
    """Waits for the next dead message."""
    method, properties, body = next(channel.consume("graveyard"))
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    return method, properties, body.decode()


def deaths(headers):
    kept = ("count", "reason", "queue", "exchange", "routing-keys", "original-expiration")
    return {
        "death": [{k: d[k] for k in kept if k in d} for d in headers["x-death"]],
        "first": [headers["x-first-death-" + k] for k in ("queue", "reason", "exchange")],
    }


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def refused(connection, step, action):
    try:
        action(connection.channel())
    except ChannelClosedByBroker as e:
        report(step, code=e.reply_code, text=e.reply_text)


connection = pika.BlockingConnection(url)
channel = connection.channel()
channel.confirm_delivery()

channel.exchange_declare("events", "direct", durable=True)
channel.exchange_declare("dead", "fanout", durable=True)
channel.queue_declare("work", durable=True, arguments=DEAD)
declared = channel.queue_declare("wait", durable=True, arguments={"x-message-ttl": 200, **DEAD}).method
channel.queue_declare("graveyard", durable=True)
channel.queue_bind("work", "events", "job")
channel.queue_bind("wait", "events", "later")
channel.queue_bind("graveyard", "dead")
report("declare", queue=declared.queue, messages=declared.message_count, consumers=declared.consumer_count)

for n in range(20):
    publish(channel, f"m{n}")  # raises if it is not confirmed
report("publish", confirmed=20)

try:
    publish(channel, "lost", "nowhere")
except UnroutableError as e:
    returned = e.messages[0]
    report("return", code=returned.method.reply_code, text=returned.method.reply_text, exchange=returned.method.exchange,
           key=returned.method.routing_key, body=returned.body.decode())

bodies = []
channel.basic_qos(prefetch_count=5)
for method, _, body in channel.consume("work"):
    bodies.append(body.decode())
    if len(bodies) == 5:
        report("prefetch", held=bodies, ready=ready(channel, "work"))
    if len(bodies) % 5 == 0:
        channel.basic_ack(method.delivery_tag, multiple=True)
    if len(bodies) == 20:
        break
channel.cancel()
report("consume", bodies=bodies, ready=ready(channel, "work"))

publish(channel, "{}", content_type="application/json", message_id="id-1", correlation_id="c-1", type="t", app_id="a",
        priority=3, timestamp=1700000000,
        headers={"text": "grüße", "number": 42, "big": 5000000000, "yes": True, "list": ["a", 1], "table": {"k": "v"}})
method, p, _ = channel.basic_get("work")
channel.basic_ack(method.delivery_tag)
report("properties", content_type=p.content_type, message_id=p.message_id, correlation_id=p.correlation_id, type=p.type,
       app_id=p.app_id, delivery_mode=p.delivery_mode, priority=p.priority, timestamp=p.timestamp, headers=p.headers)

publish(channel, "again")
first, _, _ = channel.basic_get("work")
channel.basic_nack(first.delivery_tag, requeue=True)
second, _, _ = channel.basic_get("work")
channel.basic_ack(second.delivery_tag)
report("requeue", redelivered=[first.redelivered, second.redelivered])

publish(channel, "bad")
method, _, _ = channel.basic_get("work")
channel.basic_reject(method.delivery_tag, requeue=False)
_, p, body = bury(channel)
report("reject", body=body, **deaths(p.headers))

publish(channel, "e0", "later")
publish(channel, "e1", "later", expiration="100")
for _ in range(2):
    method, p, body = bury(channel)
    report("expire", body=body, key=method.routing_key, expiration=p.expiration, **deaths(p.headers))

publish(channel, "e2", "later")
_, p, body = bury(channel)
publish(channel, body, "later", headers=p.headers)
_, p, body = bury(channel)
report("expire again", body=body, **deaths(p.headers))

refused(connection, "missing", lambda c: c.queue_declare("missing", passive=True))
refused(connection, "inequivalent", lambda c: c.queue_declare("wait", durable=True, arguments={"x-message-ttl": 300, **DEAD}))
channel = connection.channel()
channel.confirm_delivery()
report("go on", ready=ready(channel, "work"))

publish(channel, "kept")
channel.basic_get("work")
report("cut me")
try:
    while True:
        connection.process_data_events(time_limit=60)
except ConnectionClosedByBroker as e:
    report("cut", code=e.reply_code, text=e.reply_text)
while not connection.is_open:
    try:
        connection = pika.BlockingConnection(url)
    except AMQPConnectionError:
        time.sleep(0.1)
channel = connection.channel()
method, _, body = channel.basic_get("work")
channel.basic_ack(method.delivery_tag)
report("reconnect", body=body.decode(), redelivered=method.redelivered)
connection.close()
report("done")
