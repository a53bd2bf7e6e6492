"""Publishes tasks of Celery, and starts and stops a worker of the command celery.

Takes commands from its input and reports on its output, one line of JSON each.
"""

import json
import os
import signal
import subprocess
import sys
import threading

settings = json.loads(sys.argv[2])
os.environ["SHOP_BROKER"] = sys.argv[1]
if settings["remote_control"]:
    os.environ["SHOP_REMOTE_CONTROL"] = "1"

from celery_tasks import app, dead_orders, handle, orders, report


class Worker:
    def __init__(self, fixed):
        command = [sys.executable, "-m", "celery", "--app", "celery_tasks", "--workdir", os.path.dirname(os.path.abspath(__file__)), "worker",
                   "--pool", "solo", "--loglevel", "WARNING"]
        if not settings["remote_control"]:
            # Their queues are transient and not exclusive, as that of remote control is.
            command += ["--without-gossip", "--without-mingle"]
        environment = {**os.environ, "SHOP_FIXED": "1"} if fixed else os.environ
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.heard = threading.Event()
        self.ready = False
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.heard.wait()
        if not self.ready:
            raise RuntimeError("the worker has ended before it was ready")

    def read(self):
        """Passes on what the worker reports. Celery writes a banner there, too."""
        for line in self.process.stdout:
            if line.startswith('{"ready"'):
                self.ready = True
                self.heard.set()
            elif line.startswith('{"delivery"'):
                sys.stdout.write(line)
                sys.stdout.flush()
        self.heard.set()

    def stop(self):
        """Has the worker end what it does, and waits for that."""
        self.process.send_signal(signal.SIGUSR2)
        self.reader.join()
        if self.process.wait() != 0:
            raise RuntimeError(f"the worker has ended with {self.process.returncode}")


def declare():
    with app.connection_for_write() as connection:
        dead_orders(connection.default_channel).declare()
        orders(connection.default_channel).declare()


worker = None
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "declare":
        declare()
    elif command["do"] == "publish":
        for message in command["messages"]:
            handle.apply_async([json.loads(message["body"])], task_id=message["id"])
    elif command["do"] == "consume":
        worker = Worker(command["fixed"])
    elif command["do"] == "cancel":
        worker.stop()
        worker = None
    report(done=command["do"], value=True)
if worker:
    worker.stop()
