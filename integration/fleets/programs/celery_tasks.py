"""A task of Celery, and the settings of its workers: what fails for the last time is rejected, and dead-lettered by its queue."""

import json
import os
import signal
import sys
import threading

from celery import Celery
from celery.signals import worker_init, worker_ready
from celery.worker import state
from kombu import Exchange, Queue

dead_letters = Exchange("dead_letters", type="topic")
shop = Exchange("shop", type="direct", arguments={"alternate-exchange": dead_letters.name})
orders = Queue("orders", shop, routing_key="order", queue_arguments={"x-dead-letter-exchange": dead_letters.name})
dead_orders = Queue("dead_orders", dead_letters, routing_key="#")

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(
    task_queues=[orders],
    task_default_queue=orders.name,
    task_default_exchange=shop.name,
    task_default_routing_key=orders.routing_key,
    task_acks_late=True,
    task_acks_on_failure_or_timeout=False,
    task_ignore_result=True,
    broker_connection_timeout=60,
    broker_transport_options={"confirm_publish": True},
    worker_enable_remote_control="SHOP_REMOTE_CONTROL" in os.environ,
    worker_redirect_stdouts=False,
)


def report(**seen):
    # One write for the whole line: a worker's processes share the output.
    sys.stdout.write(json.dumps(seen, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@worker_init.connect
def end_with_parent(**_):
    """Ends the worker when the program that has started it is gone: by itself it would try to connect again without limit."""
    def wait():
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@worker_ready.connect
def ready(sender, **_):
    """Reports that the worker consumes, and lets SIGUSR2 end it.

    A worker of Celery 5.2 that gets SIGTERM while it handles a task ends without acking that task, which is then handled twice. So this
    worker ends by an entry of the event loop, which comes after those for the tasks that it has handled.
    """
    def stop():
        state.should_stop = 0

    signal.signal(signal.SIGUSR2, lambda *_: sender.hub.call_soon(stop))
    report(ready=True)


@app.task(bind=True, name="shop.handle", max_retries=1)
def handle(self, order):
    failed = order["fails"] > 0 and "SHOP_FIXED" not in os.environ
    info = self.request.delivery_info
    report(delivery={"id": self.request.id, "body": json.dumps(order, ensure_ascii=False), "count": self.request.retries,
                     "redelivered": info["redelivered"], "exchange": info["exchange"], "key": info["routing_key"],
                     "outcome": "failed" if failed else "handled"})
    if failed:
        raise self.retry(exc=RuntimeError("the message is to fail"), countdown=0)
